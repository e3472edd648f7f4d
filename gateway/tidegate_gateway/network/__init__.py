"""Sockets, connections, and the memory that they may take."""
