"""Requests that write, read, find or delete records."""
