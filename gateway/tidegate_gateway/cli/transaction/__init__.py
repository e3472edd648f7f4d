"""`tidegate transaction ...`: shows transactions, and aborts one that stays open."""
