"""The part of the cluster state about transactions: ids, open transactions, staged offsets."""
