"""The things on both brokers that questions name."""

from __future__ import annotations

from typing import Final, NamedTuple

MISSING: Final = "acl-missing"
"""A name with the prefix of the principals' rights that no topic or group has."""


class World(NamedTuple):
    """Parts of requests.  topic_ids (by name) and node are those of the broker that is asked."""

    topic_ids: dict[str, bytes]
    node: int
    batch: bytes
    transactional_batch: bytes
