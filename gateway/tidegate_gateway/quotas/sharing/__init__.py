"""Quotas that gateways share: their owners, the sizes of shares, and requests for shares."""
