"""`sqlite:`: the embedded default, a metadata log in one file."""
