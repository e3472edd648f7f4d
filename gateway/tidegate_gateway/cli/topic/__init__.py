"""`tidegate topic ...`: topics, their records, and the repair of those that cannot be read."""
