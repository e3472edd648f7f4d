"""Work that a gateway repeats: leases, retention, collection, snapshots, and log copies."""
