"""Plans the next merges and compactions.  Pure."""
