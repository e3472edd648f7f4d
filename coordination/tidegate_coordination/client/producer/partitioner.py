"""The partition of a key, as the Java producer chooses it: murmur2, so that records of one key stay
together whichever client writes them.  Pure.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_SHIFT: Final = 24
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_WORD: Final = 4


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic with this many partitions."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of Austin Appleby's MurmurHash2 with Kafka's seed, without a sign."""
    found = _SEED ^ len(data)
    whole = len(data) - len(data) % _WORD
    for at in range(0, whole, _WORD):
        word = int.from_bytes(data[at : at + _WORD], "little") * _FACTOR & _MASK
        word = (word ^ word >> _SHIFT) * _FACTOR & _MASK
        found = (found * _FACTOR & _MASK) ^ word
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15
