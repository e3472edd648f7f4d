"""Tiered storage as Aiven's plug-in for Apache Kafka (KIP-405) leaves it in an object store."""
