"""One module a scenario: the load on the broker, and its figures."""
