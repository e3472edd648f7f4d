"""The simulated world: machines, network, disks, store and log, on virtual time."""
