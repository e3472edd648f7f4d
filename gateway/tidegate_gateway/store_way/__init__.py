"""Whether this gateway has lost its way to the object store while other gateways reach it."""
