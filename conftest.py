"""Shared by all tests: nothing yet but the root that pytest looks for."""
