"""Other gateways: how this one asks them, and what it answers them."""
