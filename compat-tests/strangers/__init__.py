"""Strangers that connect to every listener of a gateway, and visitors that must still get in."""
