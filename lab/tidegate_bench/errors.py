"""What a person can mend."""

from __future__ import annotations


class BenchError(Exception):
    """A run cannot be had as asked.  Show the text, which is one sentence; do not try again."""
