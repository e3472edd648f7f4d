"""Judges of a history: what clients were told, against what they saw."""
