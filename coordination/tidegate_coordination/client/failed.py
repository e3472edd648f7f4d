"""The error of work that cannot be done, though the cluster answers."""

from __future__ import annotations


class Failed(Exception):
    """The command cannot be done.  The text is a sentence for a person, without its full stop."""
