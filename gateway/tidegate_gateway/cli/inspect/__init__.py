"""`tidegate inspect`: shows the content of one object."""
