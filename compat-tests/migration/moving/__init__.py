"""Topics, groups and transactional ids that move from a classic cluster, and back."""
