"""Client processes: their CPU is not the broker's, and is not measured."""
