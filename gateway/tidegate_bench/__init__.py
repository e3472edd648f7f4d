"""Benchmarks: what a gateway costs, in CPU per MB and milliseconds, beside Apache Kafka if asked."""
