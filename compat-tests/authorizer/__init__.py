"""The authorizer beside Kafka's own, with the same ACLs and questions."""
