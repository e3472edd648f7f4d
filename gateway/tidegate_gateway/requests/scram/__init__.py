"""SCRAM credentials of users."""
