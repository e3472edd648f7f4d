"""Requests about the cluster: versions, metadata, features, rights."""
