"""`tidegate gateway` and `tidegate cluster`: gateways, their draining, their version."""
