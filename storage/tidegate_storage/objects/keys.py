"""Names of objects (docs/architecture.md, "Objects").

    <cluster id>/<timeline>/wal/<zone>/<node>-<incarnation>/<counter, 12 digits>
    <cluster id>/<timeline>/segments/<topic id, hex>/<partition>/
        <base offset, 20 digits>-<incarnation>-<attempt>
    <cluster id>/<timeline>/backup/...            copies of the metadata log
    <cluster id>/<timeline>/costs/<hour, UTC>-<node>-<incarnation>-<counter, 6 digits>
    <cluster id>/<timeline>/unplaced/...          objects whose records a restore could not place
    tidegate-owner.json
    tidegate-timelines/<timeline, 6 digits>.json

Numbers that are listed in order have leading zeros, so that key order is number order.  Zone names
are percent-encoded in a key, so any name is possible.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

OWNER_KEY = "tidegate-owner.json"
TIMELINE_FOLDER = "tidegate-timelines/"


class WalKey(NamedTuple):
    """The fields of a WAL object's key."""

    cluster_id: str
    timeline: int
    zone: str
    node_id: int
    incarnation: int
    counter: int


class CostKey(NamedTuple):
    """The fields of a key of cost sums; hour: of their end, as 2026112620, in UTC.

    node_id: the gateway's; 0 for a pipeline, whose incarnation no gateway has.
    """

    cluster_id: str
    timeline: int
    hour: int
    node_id: int
    incarnation: int
    counter: int


class SegmentKey(NamedTuple):
    """The fields of a segment's key."""

    cluster_id: str
    timeline: int
    topic_id: bytes
    partition: int
    base_offset: int
    incarnation: int
    attempt: int


def timeline_prefix(cluster_id: str, timeline: int) -> str:
    """Return the prefix of all objects of one timeline."""
    return f"{_encoded(cluster_id)}/{timeline}/"


def wal_prefix(cluster_id: str, timeline: int) -> str:
    """Return the prefix of all WAL objects of one timeline."""
    return f"{timeline_prefix(cluster_id, timeline)}wal/"


def segment_prefix(cluster_id: str, timeline: int) -> str:
    """Return the prefix of all segments of one timeline."""
    return f"{timeline_prefix(cluster_id, timeline)}segments/"


def segment_key(
    cluster_id: str,
    timeline: int,
    topic_id: bytes,
    partition: int,
    base_offset: int,
    incarnation: int,
    attempt: int,
) -> str:
    """Return the key of a segment."""
    folder = f"{segment_prefix(cluster_id, timeline)}{topic_id.hex()}/{partition}"
    return f"{folder}/{base_offset:020}-{incarnation}-{attempt}"


def parse_segment_key(key: str) -> SegmentKey:
    """Inverse of segment_key.

    Raises:
      ValueError: key does not name a segment.
    """
    try:
        cluster_id, timeline, kind, topic_id, partition, name = key.split("/")
        base_offset, incarnation, attempt = name.split("-")
        found = SegmentKey(
            unquote(cluster_id),
            int(timeline),
            bytes.fromhex(topic_id),
            int(partition),
            int(base_offset),
            int(incarnation),
            int(attempt),
        )
    except ValueError:
        raise ValueError(f"{key!r} does not name a segment") from None
    if kind != "segments" or segment_key(*found) != key:
        raise ValueError(f"{key!r} does not name a segment")
    return found


def backup_prefix(cluster_id: str, timeline: int) -> str:
    """Return the prefix of all copies of the metadata log of one timeline."""
    return f"{timeline_prefix(cluster_id, timeline)}backup/"


def cost_prefix(cluster_id: str, timeline: int) -> str:
    """Return the prefix of all cost sums of one timeline."""
    return f"{timeline_prefix(cluster_id, timeline)}costs/"


def cost_key(
    cluster_id: str, timeline: int, hour: int, node_id: int, incarnation: int, counter: int
) -> str:
    """Return the key of the sums of a part of a gateway's life."""
    name = f"{hour:010}-{node_id}-{incarnation}-{counter:06}"
    return f"{cost_prefix(cluster_id, timeline)}{name}"


def parse_cost_key(key: str) -> CostKey:
    """Inverse of cost_key.

    Raises:
      ValueError: key does not name cost sums.
    """
    try:
        cluster_id, timeline, kind, name = key.split("/")
        hour, node_id, incarnation, counter = map(int, name.split("-"))
        found = CostKey(unquote(cluster_id), int(timeline), hour, node_id, incarnation, counter)
    except ValueError:
        raise ValueError(f"{key!r} does not name cost sums") from None
    if kind != "costs" or cost_key(*found) != key:
        raise ValueError(f"{key!r} does not name cost sums")
    return found


def unplaced_key(cluster_id: str, timeline: int, key: str) -> str:
    """Return the key for a restore's copy of an object with records of unknown topics."""
    return f"{timeline_prefix(cluster_id, timeline)}unplaced/{key.partition('/')[2]}"


def timeline_key(timeline: int) -> str:
    """Return the key of the marker of a timeline that a restore opened."""
    return f"{TIMELINE_FOLDER}{timeline:06}.json"


def parse_timeline_key(key: str) -> int:
    """Inverse of timeline_key.

    Raises:
      ValueError: key does not name such a marker.
    """
    timeline = int(key.removeprefix(TIMELINE_FOLDER).removesuffix(".json"))
    if timeline_key(timeline) != key:
        raise ValueError(f"{key!r} does not name the marker of a timeline")
    return timeline


def wal_key(
    cluster_id: str, timeline: int, zone: str, node_id: int, incarnation: int, counter: int
) -> str:
    """Return the key of a WAL object."""
    return f"{_wal_folder(cluster_id, timeline, zone, node_id, incarnation)}/{counter:012}"


@lru_cache(maxsize=1024)
def _wal_folder(cluster_id: str, timeline: int, zone: str, node_id: int, incarnation: int) -> str:
    """Return the folder of an incarnation, which names its objects one after the other."""
    return f"{wal_prefix(cluster_id, timeline)}{_encoded(zone)}/{node_id}-{incarnation}"


def parse_wal_key(key: str) -> WalKey:
    """Inverse of wal_key.

    Raises:
      ValueError: key does not name a WAL object.
    """
    try:
        cluster_id, timeline, kind, zone, node_and_incarnation, counter = key.split("/")
        node_id, _, incarnation = node_and_incarnation.rpartition("-")
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


def _encoded(part: str) -> str:
    """Return one part of a key, percent-encoded; never empty, '.' or '..'.

    Raises:
      ValueError: part is empty.
    """
    if not part:
        raise ValueError("a part of an object key may not be empty")
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E")
