"""The sizes of the most expensive requests, and their common parts.

WIDE has many partitions, and GROUP has committed offsets for them.  MANY is the prefix of many
topics.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

WIDE, WIDE_PARTITIONS = "wide", 10_000
MANY, MANY_TOPICS = "many", 5_000
GROUP, GROUP_PARTITIONS = "group", 10_000
GROUPS = 2_000
# Elements of the largest array; a request with more elements than allowed is refused.
COUNT = 95_000
HALF = 48_000
FETCHED = 14_900
BATCHES = 9_900
TOO_MANY = 900_000
BLOB = bytes(7 << 20)
TIME_MS = 1_700_000_000_000


def many() -> Iterator[str]:
    """Yield the names of the many topics."""
    return (f"{MANY}{number}" for number in range(MANY_TOPICS))


def names(prefix: str, count: int = COUNT) -> Iterator[str]:
    """Yield names of topics that do not exist."""
    return (f"{prefix}{number:x}" for number in range(count))


def of(module: Any, version: int, request: Any) -> bytes:
    return bytes(module.encode_request(request, version))


def frame(key: int, version: int, flexible: bool, body: bytes) -> bytes:
    """Return a whole frame."""
    head = struct.pack(">hhih", key, version, 7, 4) + b"dear" + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body
