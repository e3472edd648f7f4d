"""`http:`: a metadata log behind a small REST contract, and the service that offers it."""
