"""Readers with isolation.level=read_committed, which filter by the aborted list as clients do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate_protocol.messages import fetch
from tidegate_protocol.records import crc_matches, decode_records, walk

from ..checks.keyed import value_in
from ..clients.client import ProtocolBroken
from ..clients.final_readers import FinalReader
from ..clients.readers import Reader
from ..clients.workload import Key, Workload

_COMMITTED = 1


class CommittedReader(Reader):
    """Reads committed records of random keys."""

    isolation_level = _COMMITTED

    def records_of(
        self, part: fetch.PartitionData, position: int
    ) -> tuple[list[tuple[int, int]], int]:
        """See committed_records()."""
        return committed_records(part, position)


class FinalCommittedReader(FinalReader):
    """Reads the committed records of one key to its end: every transaction must have ended."""

    isolation_level = _COMMITTED

    def __init__(self, workload: Workload, key: Key, has_come_on: Callable[[], None]) -> None:
        super().__init__(workload, key, has_come_on, name=f"final committed {key.number}")

    def records_of(
        self, part: fetch.PartitionData, position: int
    ) -> tuple[list[tuple[int, int]], int]:
        """See committed_records()."""
        return committed_records(part, position)


def committed_records(
    part: fetch.PartitionData, position: int
) -> tuple[list[tuple[int, int]], int]:
    """Return (offset, value) of the records from position on, and the next position.

    As in Kafka's consumers: a producer in the aborted list is dropped from its first offset on, up
    to its next abort marker.
    """
    data: Any = part.records or b""
    view = memoryview(bytes(data))
    waiting = sorted(
        ((each.first_offset, each.producer_id) for each in part.aborted_transactions or ()),
        reverse=True,
    )
    aborted: set[int] = set()
    records: list[tuple[int, int]] = []
    for start, header in walk(view):
        if not crc_matches(view, start, header):
            raise ProtocolBroken(f"a batch at offset {header.base_offset} has a wrong CRC")
        if header.base_offset >= part.last_stable_offset:
            raise ProtocolBroken(f"offset {header.base_offset} is at or above the LSO")
        while waiting and waiting[-1][0] <= header.last_offset:
            aborted.add(waiting.pop()[1])
        batch = view[start : start + header.size_bytes]
        is_hidden = header.is_transactional and header.producer_id in aborted
        for each in _decoded(batch):
            if header.is_control:
                if not is_commit(each.key):
                    aborted.discard(header.producer_id)
            elif each.offset >= position and not is_hidden:
                records.append((each.offset, value_in(each)))
        position = max(position, header.last_offset + 1)
    return records, position


def is_commit(key: bytes | None) -> bool:
    """Return whether a control record, by its key, is a commit."""
    if key not in (b"\0\0\0\0", b"\0\0\0\1"):
        raise ProtocolBroken(f"a control record with the key {key!r}")
    return key == b"\0\0\0\1"


def _decoded(batch: memoryview) -> list[Any]:
    return list(decode_records(batch, max_decompressed_bytes=1 << 20))
