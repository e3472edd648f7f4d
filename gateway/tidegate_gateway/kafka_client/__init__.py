"""What the commands for topics and groups do as clients of a Kafka cluster, ours or another."""
