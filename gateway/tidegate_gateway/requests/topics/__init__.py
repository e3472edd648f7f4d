"""Requests that create, change and describe topics and their replicas."""
