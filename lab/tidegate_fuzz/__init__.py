"""Coverage-guided fuzzing of codec, object readers and whole connections."""
