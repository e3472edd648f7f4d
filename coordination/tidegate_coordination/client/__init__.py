"""The client of Kafka clusters, ours or another, for links, imports and commands."""
