"""The fetch path: from the partitions that a client asks for to verified bytes."""
