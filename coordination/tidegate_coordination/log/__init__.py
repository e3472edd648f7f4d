"""The metadata log as its users meet it: the interface, snapshots, careful access."""
