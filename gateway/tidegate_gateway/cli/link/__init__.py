"""`tidegate link`: topics of a classic Kafka cluster, mirrored here."""
