"""Figures of links and imports."""
