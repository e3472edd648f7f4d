"""`tidegate debug`: facts for a person who looks for a fault."""
