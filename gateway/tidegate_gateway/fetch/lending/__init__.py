"""Bytes of objects: from the store, or lent by gateways of the zone."""
