"""Object stores: the interface, its implementations, and their contract."""
