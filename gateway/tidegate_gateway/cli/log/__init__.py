"""`tidegate log ...`: commands that back up, restore, repair, move, verify and serve a log."""
