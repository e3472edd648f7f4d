"""A client of classic Kafka clusters, for links: mirroring, the proxy and the switch."""
