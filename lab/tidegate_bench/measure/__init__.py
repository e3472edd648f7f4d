"""From the resources of a process to the figures of a table."""
