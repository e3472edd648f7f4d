"""The bytes of WAL objects and segments.  Pure."""
