"""Pages about a gateway for people and programs: health, metrics and status."""
