"""Writes switched topics back to their source, and returns them to it."""
