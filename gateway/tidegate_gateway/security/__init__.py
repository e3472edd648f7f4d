"""Authentication of clients, their rights, and the form of guards."""
