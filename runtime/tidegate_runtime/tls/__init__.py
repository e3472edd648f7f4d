"""Certificates, keys and the stores that hold them, for both ends of TLS connections."""
