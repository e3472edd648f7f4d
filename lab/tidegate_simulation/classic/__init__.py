"""A model of a classic Apache Kafka cluster: the source of a link, in memory."""
