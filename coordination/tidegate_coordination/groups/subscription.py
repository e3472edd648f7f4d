"""The topics that members of a consumer group subscribe to.

ConsumerProtocolSubscription: every version begins like version 0, a version number and the topics.
Only these are read, and only for protocol type "consumer": all other bytes of a group are opaque.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

_SHORT = Struct(">h")
_INT = Struct(">i")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all members; None when one member's cannot be read."""
    try:
        return frozenset(topic for each in metadata for topic in _topics(each))
    except ValueError:
        return None


def _topics(metadata: bytes) -> list[str]:
    position = _SHORT.size  # after the version
    (count,), position = _unpack(_INT, metadata, position)
    topics: list[str] = []
    for _ in range(count):
        (length,), position = _unpack(_SHORT, metadata, position)
        end = position + length
        if length < 0 or end > len(metadata):
            raise ValueError("a topic name goes beyond the subscription")
        topics.append(metadata[position:end].decode())
        position = end
    return topics


def _unpack(form: Struct, metadata: bytes, position: int) -> tuple[tuple[int, ...], int]:
    end = position + form.size
    if end > len(metadata):
        raise ValueError("the subscription ends early")
    return form.unpack_from(metadata, position), end
