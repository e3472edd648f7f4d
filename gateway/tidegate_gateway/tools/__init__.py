"""What commands do that look at a machine, a store or objects, and what they find."""
