"""Checks of a history: the answers that clients got against the records that they read."""
