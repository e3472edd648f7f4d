"""Finds the zone of a client, and the gateways that Metadata names to it."""
