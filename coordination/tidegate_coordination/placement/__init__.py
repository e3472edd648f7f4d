"""Which gateway serves what: rendezvous hashing over the gateways that live."""
