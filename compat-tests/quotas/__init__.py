"""The throughput of clients under quotas, beside Apache Kafka."""
