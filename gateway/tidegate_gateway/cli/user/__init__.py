"""`tidegate user ...`: users of a cluster."""
