"""ACLs, and the decisions that follow from them.  No I/O, and no clock."""
