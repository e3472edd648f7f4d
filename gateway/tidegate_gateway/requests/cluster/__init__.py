"""Requests about the cluster: versions, metadata, features, ACLs."""
