"""Creates topics and looks up their names, for several kinds of requests."""
