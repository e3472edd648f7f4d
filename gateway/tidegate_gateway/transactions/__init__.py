"""Transactions of clients: the work of this gateway beside the decisions by the log's rules."""
