"""What can stand in the metadata log: events, entries, and the metadata.version they need."""
