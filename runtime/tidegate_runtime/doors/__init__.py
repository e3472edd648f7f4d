"""Which connections a listener keeps: known clients, and strangers."""
