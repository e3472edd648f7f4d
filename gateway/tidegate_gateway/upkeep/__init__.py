"""Work that a gateway repeats: leases, retention, collection, snapshots, copies of the log."""
