"""Requests about delegation tokens; clients log in by these tokens (security/tokens)."""
