"""Folds of events that change several tables at once."""
