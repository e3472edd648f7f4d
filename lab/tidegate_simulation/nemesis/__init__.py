"""Faults that strike whole gateways, zones and logs in a run, and their schedule."""
