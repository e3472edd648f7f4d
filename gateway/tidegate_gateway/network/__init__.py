"""Sockets, connections, and the bounds on their memory."""
