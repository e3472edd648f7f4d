"""Requests of transactional producers."""
