"""Tasks: they read runs and segments, write segments, and prove them."""
