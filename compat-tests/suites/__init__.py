"""Published suites and clients, and how each judges a broker."""
