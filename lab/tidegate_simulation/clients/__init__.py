"""Kafka clients of a run: they write, read, administrate, and are hostile."""
