"""Delegation tokens, against Apache Kafka and the gateway: codes, names, times, logins."""
