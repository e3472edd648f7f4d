"""The same requests to Apache Kafka and to the simulator's model of it."""
