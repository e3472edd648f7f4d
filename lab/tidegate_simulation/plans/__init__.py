"""The draws of a seed: faults, settings, disks, zones, moves; each has its own random numbers."""
