"""What a reader of objects says of bytes it cannot use."""

from __future__ import annotations


class CorruptObject(Exception):
    """The bytes are damaged or not what was asked for; the sentence says where.  Do not retry."""


class UnknownVersion(Exception):
    """A newer release wrote this object.  The object is fine: upgrade the reader."""
