"""The part of the cluster state about records: their objects, partitions and producers."""
