"""One module per API: decides Kafka error codes, asks the coordinator, answers."""
