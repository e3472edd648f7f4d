"""Groups of a Kafka cluster: their offsets and members, and a member of one's own."""
