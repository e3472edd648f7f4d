"""`tidegate log ...`: backup, restore, repair, move, verify and serve a metadata log."""
