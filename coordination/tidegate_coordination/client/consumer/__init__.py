"""Reads records of a topic of a Kafka cluster."""
