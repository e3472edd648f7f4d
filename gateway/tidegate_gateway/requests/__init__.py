"""Handlers of Kafka requests, with a folder for each feature."""
