"""Requests of transactional producers, and facts that hold after each of them."""
