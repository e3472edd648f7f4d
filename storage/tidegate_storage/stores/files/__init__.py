"""Opening, writing and renaming local files so that they survive a power cut."""
