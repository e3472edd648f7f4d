"""What people and programs are shown of a gateway: health, metrics, status and log lines."""
