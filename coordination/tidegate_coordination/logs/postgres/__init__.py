"""`postgres:`: a metadata log that gateways on many machines share."""
