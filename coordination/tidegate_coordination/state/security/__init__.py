"""ACLs, quotas, SCRAM credentials and delegation tokens: the tables of the state."""
