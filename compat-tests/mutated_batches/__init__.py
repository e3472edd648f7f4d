"""Batches with false headers, damaged records and odd streams: beside Apache Kafka."""
