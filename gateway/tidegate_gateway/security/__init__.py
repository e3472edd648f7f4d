"""The names of clients, their rights, and the needs of every API."""
