"""The move of a live metadata log to another one (decision 13)."""
