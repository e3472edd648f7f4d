"""What a task does: reads runs and segments, writes segments, proves them."""
