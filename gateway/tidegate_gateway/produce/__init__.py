"""The produce path: from accepted batches to a committed WAL object."""
