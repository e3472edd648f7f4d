"""Connections to brokers, and the calls on them."""
