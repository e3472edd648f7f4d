"""What a seed draws: faults, settings, disks, zones, moves; each drawn apart from the others."""
