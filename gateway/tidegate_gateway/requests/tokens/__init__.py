"""Delegation tokens: clients make them here, and log in by them (security/tokens)."""
