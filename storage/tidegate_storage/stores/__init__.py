"""Object stores: the interface, its implementations, and what they must promise."""
