"""How connections authenticate."""
