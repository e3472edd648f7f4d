"""TLS of the listeners: settings, contexts that are replaced while they serve, principals."""
