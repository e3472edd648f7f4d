"""Requests about dynamic configs."""
