"""The names of clients, and what they may do."""
