"""Writes records to a topic of a Kafka cluster."""
