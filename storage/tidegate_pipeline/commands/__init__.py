"""The commands `tidegate pipeline ...`, their output, and the pages that they serve."""
