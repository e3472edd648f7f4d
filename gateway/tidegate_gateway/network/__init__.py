"""Sockets, connections, and the limits on their memory."""
