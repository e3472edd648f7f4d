"""Clients that log in, and strangers that do not; see plans/login_plan.py."""
