"""Switches topics from their source to this cluster."""
