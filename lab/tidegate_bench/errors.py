"""Errors that the person at the keyboard can fix."""

from __future__ import annotations


class BenchError(Exception):
    """A run is impossible with these options.  Show the text, which is one sentence; do not try
    again.
    """
