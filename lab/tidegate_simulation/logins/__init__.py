"""Clients that log in, and strangers that do not; see plans/security/login_plan.py."""
