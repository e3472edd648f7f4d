"""What people and programs are shown of a gateway: health, metrics and status."""
