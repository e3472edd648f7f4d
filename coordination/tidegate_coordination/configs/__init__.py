"""Kafka's configs as tables: names, types, defaults, checks.  Nothing here waits."""
