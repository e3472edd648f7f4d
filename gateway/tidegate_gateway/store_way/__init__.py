"""Whether this gateway's own way to the object store works, while those of others do."""
