"""The cluster state: the deterministic fold of the metadata log.  Nothing here waits."""
