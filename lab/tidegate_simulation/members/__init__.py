"""Members and committers of consumer groups."""
