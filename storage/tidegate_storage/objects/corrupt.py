"""The errors of readers of objects."""

from __future__ import annotations


class CorruptObject(Exception):
    """The bytes are damaged or of another object; the sentence says where.  Do not retry."""


class UnknownVersion(Exception):
    """A newer release wrote this object.  The object is fine: upgrade the reader."""
