"""Copies the topics of a source, as a consumer of it."""
