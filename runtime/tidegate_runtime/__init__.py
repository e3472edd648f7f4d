"""Tidegate's plumbing: HTTP, listening sockets, log lines, settings as texts."""
