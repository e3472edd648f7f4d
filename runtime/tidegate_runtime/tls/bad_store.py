"""The error of a store that cannot be used."""

from __future__ import annotations


class BadStore(Exception):
    """A store cannot be used.  The text says why: a part of a sentence that holds no secret."""
