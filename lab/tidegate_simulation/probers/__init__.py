"""Clients that ask for service, and judge each answer."""
