"""Proposal + state -> events, or a refusal.  Nothing here waits."""
