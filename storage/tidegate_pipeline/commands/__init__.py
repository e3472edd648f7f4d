"""The commands `tidegate pipeline ...`, and what they print and serve."""
