"""The parts of a gateway, made in groups; gateway.py joins these."""
