"""Makes the parts of a gateway, in groups; gateway.py puts them together."""
