"""Examines a source before it is linked or switched."""
