"""Logins, rights and quotas of a run."""
