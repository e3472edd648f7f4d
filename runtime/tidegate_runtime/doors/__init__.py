"""Which connections a listener keeps: clients that are known, and strangers."""
