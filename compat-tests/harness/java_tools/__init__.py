"""Kafka's command line tools: what they print against us and against Apache Kafka."""
