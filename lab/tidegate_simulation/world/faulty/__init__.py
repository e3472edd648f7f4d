"""Store, log, disk and runner, with their faults."""
