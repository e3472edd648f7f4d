"""`tidegate topic ...`: repair of topics whose records cannot be read."""
