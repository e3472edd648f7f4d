"""Which gateway serves which partition or group: rendezvous hashing over the live gateways."""
