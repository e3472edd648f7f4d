"""Transactions of clients: the work that this gateway does besides the log's rules."""
