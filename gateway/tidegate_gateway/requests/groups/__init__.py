"""Requests of members of consumer groups, and requests about groups."""
