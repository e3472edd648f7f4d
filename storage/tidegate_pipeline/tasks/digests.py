"""The proof that a task wrote what it read.  Pure.

A digest is the sum, modulo 2^64, of a hash of each batch's (offset, CRC field as it was read).  The
order does not matter.  A lost, repeated or exchanged batch changes the digest, except with a
probability of 2^-64.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct

_PAIR = Struct(">qI")
_MASK = (1 << 64) - 1


def batch_digest(base_offset: int, crc: int) -> int:
    """Return the hash of one batch."""
    hashed = blake2b(_PAIR.pack(base_offset, crc), digest_size=8).digest()
    return int.from_bytes(hashed, "big")


def add(digest: int, base_offset: int, crc: int) -> int:
    """Return a digest with one batch more."""
    return (digest + batch_digest(base_offset, crc)) & _MASK
