"""Counts of a gateway's own work, for metrics: no I/O, and no clock of its own."""
