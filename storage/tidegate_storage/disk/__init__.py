"""Files on a local disk: steps, recipes, and the disk cache."""
