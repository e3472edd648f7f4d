"""Other gateways: how this gateway asks them, and how it answers them."""
