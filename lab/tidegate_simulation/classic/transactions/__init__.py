"""Transactional ids at their coordinator."""
