"""Rows of events by subject; event_rows.py joins them with all others."""
