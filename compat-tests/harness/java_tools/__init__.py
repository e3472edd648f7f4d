"""Kafka's command line tools: their output at a gateway, compared with that at Apache Kafka."""
