"""Kafka clients of a run: producers, readers, group members, administrators and hostile clients."""
