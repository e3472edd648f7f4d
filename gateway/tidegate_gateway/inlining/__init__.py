"""Small writes: objects that travel in the metadata log, and their way to the store."""
