"""Quotas that gateways share: owners, sizes of shares, and requests for shares."""
