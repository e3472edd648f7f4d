"""Authentications that fail, against Apache Kafka and the gateway: codes, texts, order, closes."""
