"""Links to a classic cluster in the simulated world: the source, its clients, and the checks."""
