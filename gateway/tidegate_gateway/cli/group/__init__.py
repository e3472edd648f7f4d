"""`tidegate group ...`: consumer groups of a cluster."""
