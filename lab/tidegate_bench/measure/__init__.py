"""From what a process used up to the figures of a table."""
