"""Transactions under test: beside Apache Kafka."""
