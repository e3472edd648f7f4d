"""TLS beside Java and Apache Kafka: names, stores, clients, and the CPU of a megabyte."""
