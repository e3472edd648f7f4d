"""The simulated world: clients, faults, network, checker.  Not needed to run a gateway."""
