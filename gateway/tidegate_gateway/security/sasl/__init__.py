"""SASL on the listeners for clients: a state machine without I/O, and a gate that does the I/O."""
