"""What each client may do: principals, their rights, and the needs of every API."""
