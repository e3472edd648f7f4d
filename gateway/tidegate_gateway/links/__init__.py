"""Mirrors topics of classic Kafka clusters."""
