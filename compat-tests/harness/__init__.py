"""Starts brokers, runs published clients and suites against them, and scores the result."""
