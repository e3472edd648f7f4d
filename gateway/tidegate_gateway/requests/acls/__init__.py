"""ACLs."""
