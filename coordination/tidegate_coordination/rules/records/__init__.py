"""Rules of records: commits, segments, skips, producer ids."""
