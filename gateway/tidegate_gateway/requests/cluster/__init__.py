"""Requests about the cluster: versions, metadata, brokers, features."""
