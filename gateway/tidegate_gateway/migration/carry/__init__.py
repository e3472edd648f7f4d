"""Carries ACLs, quotas and SCRAM users of a source over."""
