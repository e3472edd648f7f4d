"""The metadata logs, one room or module for each kind of URL."""
