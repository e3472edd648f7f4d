"""Names of objects (design, section 6).

    <cluster id>/<timeline>/wal/<zone>/<node>-<incarnation>/<counter, 12 digits>
    <cluster id>/<timeline>/segments/<topic id, hex>/<partition>/<base offset, 20 digits>-<id>
    tidegate-owner.json

Numbers that are listed in order have leading zeros, so that key order is number order.  A zone
name goes into a key percent-encoded, so any name will do.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

OWNER_KEY = "tidegate-owner.json"


class WalKey(NamedTuple):
    """What the key of a WAL object says."""

    cluster_id: str
    timeline: int
    zone: str
    node_id: int
    incarnation: int
    counter: int


class SegmentKey(NamedTuple):
    """What the key of a segment says; topic_id is 16 bytes."""

    cluster_id: str
    timeline: int
    topic_id: bytes
    partition: int
    base_offset: int
    segment_id: str


def timeline_prefix(cluster_id: str, timeline: int) -> str:
    """Everything of one timeline."""
    return f"{_encoded(cluster_id)}/{timeline}/"


def wal_prefix(cluster_id: str, timeline: int) -> str:
    """All WAL objects of one timeline."""
    return f"{timeline_prefix(cluster_id, timeline)}wal/"


def segments_prefix(cluster_id: str, timeline: int) -> str:
    """All segments of one timeline."""
    return f"{timeline_prefix(cluster_id, timeline)}segments/"


def wal_key(
    cluster_id: str, timeline: int, zone: str, node_id: int, incarnation: int, counter: int
) -> str:
    """The name of a WAL object."""
    folder = f"{_encoded(zone)}/{node_id}-{incarnation}"
    return f"{wal_prefix(cluster_id, timeline)}{folder}/{counter:012}"


def parse_wal_key(key: str) -> WalKey:
    """Inverse of wal_key.

    Raises:
      ValueError: key does not name a WAL object.
    """
    try:
        cluster_id, timeline, kind, zone, node_and_incarnation, counter = key.split("/")
        node_id, incarnation = node_and_incarnation.split("-")
        found = WalKey(
            unquote(cluster_id),
            int(timeline),
            unquote(zone),
            int(node_id),
            int(incarnation),
            int(counter),
        )
    except ValueError:
        raise ValueError(f"{key!r} does not name a WAL object") from None
    if kind != "wal" or wal_key(*found) != key:
        raise ValueError(f"{key!r} does not name a WAL object")
    return found


def segment_key(
    cluster_id: str,
    timeline: int,
    topic_id: bytes,
    partition: int,
    base_offset: int,
    segment_id: str,
) -> str:
    """The name of a segment."""
    folder = f"{segments_prefix(cluster_id, timeline)}{topic_id.hex()}/{partition}"
    return f"{folder}/{base_offset:020}-{_encoded(segment_id)}"


def parse_segment_key(key: str) -> SegmentKey:
    """Inverse of segment_key.

    Raises:
      ValueError: key does not name a segment.
    """
    try:
        cluster_id, timeline, kind, topic_id, partition, name = key.split("/")
        base_offset, segment_id = name.split("-", 1)
        found = SegmentKey(
            unquote(cluster_id),
            int(timeline),
            bytes.fromhex(topic_id),
            int(partition),
            int(base_offset),
            unquote(segment_id),
        )
    except ValueError:
        raise ValueError(f"{key!r} does not name a segment") from None
    if kind != "segments" or segment_key(*found) != key:
        raise ValueError(f"{key!r} does not name a segment")
    return found


def _encoded(part: str) -> str:
    """One part of a key, never empty, '.' or '..'.

    Raises:
      ValueError: part is empty.
    """
    if not part:
        raise ValueError("a part of an object key may not be empty")
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E")
