"""`tidegate debug`: what a person who looks for a fault needs."""
