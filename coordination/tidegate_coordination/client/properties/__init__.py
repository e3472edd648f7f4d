"""The properties of a Kafka client, as a link reads them.  Pure."""
