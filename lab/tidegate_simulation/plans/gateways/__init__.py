"""Zones, drains and absences of gateways in a run."""
