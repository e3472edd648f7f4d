"""What clients get through under quotas, beside Apache Kafka."""
