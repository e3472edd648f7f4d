"""A folder for each feature: decides Kafka error codes, asks the coordinator, answers."""
