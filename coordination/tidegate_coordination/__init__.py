"""Cluster state, coordinator and metadata logs: who decides offsets and groups."""
