"""`tidegate top`: gateways, topics, groups and the object store, live."""
