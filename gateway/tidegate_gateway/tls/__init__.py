"""TLS of the listeners: settings, contexts that can be replaced while serving, and principals."""
