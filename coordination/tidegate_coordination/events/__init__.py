"""The content of the metadata log: events, entries, and the metadata.version that they need."""
