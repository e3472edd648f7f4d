"""In which zone a client is, and to which gateways it is sent."""
