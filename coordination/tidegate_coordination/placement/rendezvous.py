"""Rendezvous hashing: all that know the same candidates choose the same one.  If a candidate
leaves, only its keys move; a new candidate takes only its share.  The hash is BLAKE2b, so that
releases and languages agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b


def choose(key: bytes, candidates: Sequence[int]) -> int:
    """Return the candidate with the highest score for the key; of equal scores the larger number.

    Raises:
      ValueError: there is no candidate.
    """
    if not candidates:
        raise ValueError("no candidate to choose from")
    if len(candidates) == 1:
        return candidates[0]
    return max((score(key, each), each) for each in candidates)[1]


def score(key: bytes, candidate: int) -> int:
    """Return the 64-bit score: BLAKE2b of the candidate (8 bytes, big endian) and the key."""
    data = candidate.to_bytes(8, "big", signed=True) + key
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
