"""The measured parts: brokers, stores, logs and pipelines of our own, and Apache Kafka."""
