"""Clients that probe a service and judge each answer."""
