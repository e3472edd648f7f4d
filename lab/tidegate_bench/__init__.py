"""Benchmarks: what a gateway costs in CPU and time, beside Apache Kafka if asked."""
