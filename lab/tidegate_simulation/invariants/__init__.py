"""Invariants of the cluster state and of the store, whatever clients see."""
