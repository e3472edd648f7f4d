"""The error of a gateway whose log and object store do not belong together."""

from __future__ import annotations


class KeyTaken(Exception):
    """Another gateway's object has the key of one of this gateway's.  The text says what that
    means.
    """


def key_taken(key: str) -> KeyTaken:
    """Return the error for an object of a key."""
    return KeyTaken(
        "the metadata log lost its end, or another cluster has the same prefix, so this gateway"
        f" stops: an object that is not its own has the key {key}"
    )
