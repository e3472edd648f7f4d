"""Creates topics and looks up topic names, for several kinds of requests."""
