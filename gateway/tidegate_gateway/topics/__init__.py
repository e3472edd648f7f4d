"""Creating topics and looking up their names, as several requests need it."""
