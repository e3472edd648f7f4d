"""The names and small files of a Kafka broker's log folders.  Pure.

DIR/meta.properties                     cluster.id
DIR/replication-offset-checkpoint       the high watermark of each partition
DIR/log-start-offset-checkpoint         the log start, where it is above the first segment
DIR/TOPIC-PARTITION/partition.metadata  topic_id
DIR/TOPIC-PARTITION/BASE.log            batches; BASE has 20 digits
DIR/TOPIC-PARTITION/BASE.index          (offset - BASE, byte of the log), about one for 4 KiB
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from typing import Final, TypeAlias

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLUSTER: Final = "meta.properties"
TOPIC_ID: Final = "partition.metadata"

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

# The name of a folder that is being deleted or moved has another ending.
_FOLDER: Final = re.compile(r"(.+)-(\d+)")
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_UUID_BYTES: Final = 16


class BadFolder(Exception):
    """A folder does not have the content of a broker's log folder.  The text is for a person."""


def place_of(folder: str) -> Place | None:
    """Return the partition of a folder's name; None if it is no folder of a partition in use."""
    found = _FOLDER.fullmatch(folder)
    return (found[1], int(found[2])) if found is not None else None


def segment_bases(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the segments among the names of files, rising."""
    found = (_SEGMENT.fullmatch(each) for each in names)
    return sorted(int(each[1]) for each in found if each is not None)


def segment_name(base: int, ending: str) -> str:
    """Return the name of a file of a segment; ending: log or index."""
    return f"{base:020}.{ending}"


def read_checkpoint(text: str, name: str) -> dict[Place, int]:
    """Read a checkpoint file: version, number of lines, then lines of topic, partition, offset.

    A broker creates the file empty, and writes it later.

    Raises:
      BadFolder: it is another file, or was cut.
    """
    lines = text.splitlines() or ["0", "0"]
    try:
        version, count = int(lines[0]), int(lines[1])
        rows = [each.rsplit(" ", 2) for each in lines[2 : 2 + count]]
        found = {(topic, int(index)): int(offset) for topic, index, offset in rows}
    except (IndexError, ValueError):
        version, count, found = -1, 0, {}
    if version != 0 or len(found) != count:
        raise BadFolder(f"{name} is no checkpoint of a Kafka broker")
    return found


def read_topic_id(text: str, name: str) -> bytes:
    """Read a partition.metadata file.

    Raises:
      BadFolder: it is another file.
    """
    fields = dict(each.split(": ", 1) for each in text.splitlines() if ": " in each)
    try:
        found = urlsafe_b64decode(fields["topic_id"] + "==")
    except (KeyError, ValueError):
        found = b""
    if len(found) != _UUID_BYTES:
        raise BadFolder(f"{name} holds no topic id")
    return found


def read_cluster_id(text: str) -> str:
    """Read a meta.properties file; return "" if it names no cluster."""
    fields = dict(each.split("=", 1) for each in text.splitlines() if "=" in each)
    return fields.get("cluster.id", "").strip()
