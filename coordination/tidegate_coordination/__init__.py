"""Cluster state, coordinator and metadata logs: they decide offsets and groups."""
