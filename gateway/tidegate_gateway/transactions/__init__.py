"""Transactions of clients: what this gateway does for them beside deciding by the log's rules."""
