"""Finds out whether this gateway cannot reach the object store while other gateways can."""
