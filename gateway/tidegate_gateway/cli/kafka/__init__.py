"""How commands reach a Kafka cluster, ours or another."""
