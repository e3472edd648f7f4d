"""SASL on the listeners for clients: a machine without I/O, and the gate that waits for it."""
