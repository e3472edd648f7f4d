"""Transactional producers of both protocol versions, and readers of committed records."""
