"""Changes of ACLs, quotas, SCRAM credentials and delegation tokens."""
