"""What a gateway counts of its own work, for metrics: no I/O, and no clock of its own."""
