"""One module a scenario: what is done to the broker, and what is looked at."""
