"""Stores and logs of clouds, on their emulators."""
