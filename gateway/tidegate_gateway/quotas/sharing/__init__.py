"""Quotas that gateways share: who grants shares, what they are, and how gateways ask for them."""
