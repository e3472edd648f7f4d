"""Copies the backlog of a link's topics in parallel, instead of the gateways' mirrors."""
