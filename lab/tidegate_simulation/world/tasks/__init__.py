"""Tasks and threads: their order, their stalls, their turns."""
