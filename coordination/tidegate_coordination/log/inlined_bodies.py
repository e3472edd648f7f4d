"""Entries that hold bodies of inlined objects: which the log must keep, and how they are read.

A snapshot holds only the positions of the entries (decision 49).  So a state that began with a
snapshot brings the bodies into memory from the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from ..events.entries import decode_entry
from ..events.inlined import BatchesInlined
from ..state.cluster import ClusterState
from ..state.frozen import first_piece
from ..state.records.objects import ObjectName, WalName
from .metadata_log import LogEntry, Snapshot, Trimmed


class _Objects(msgspec.Struct):
    inlined: list[tuple[int, int, int, int]] = []


class _Head(msgspec.Struct):
    """The part of a snapshot's head that is needed here."""

    objects: _Objects


_head_decoder: Final = msgspec.msgpack.Decoder(_Head)
_Places: TypeAlias = dict[int, dict[ObjectName, int]]
"""By position of an entry: the names of its absent objects, and their numbers."""
ReadFrom: TypeAlias = Callable[[int], Awaitable[Sequence[LogEntry] | Trimmed]]
"""Reads entries from a position on."""


def first_needed_of(snapshot: Snapshot) -> int | None:
    """Return the position of the oldest entry whose bytes a snapshot's state needs; None for none.

    Only that part of the snapshot is decoded: the rest may be large.
    """
    head = _head_decoder.decode(first_piece(snapshot.chunks))
    return min((position for _, position, *_ in head.objects.inlined), default=None)


async def fill_absent(state: ClusterState, read: ReadFrom) -> list[int]:
    """Read the absent bodies; return the positions, rising, of those that are still absent.

    A body stays absent if its entry is not there, or does not hold it.  No other task folds entries
    into the state meanwhile.

    Raises:
      UnreadableEntry: an entry that is needed is damaged.
    """
    places: _Places = _names_by_position(state)
    while places:
        position = next(iter(places))
        entries = await read(position)
        if isinstance(entries, Trimmed):
            for at in [at for at in places if at < entries.first_position]:
                del places[at]
            places.pop(position, None)
            continue
        for each in entries:
            if (names := places.pop(each.position, None)) is not None:
                _fill_from(state, each, names)
        places.pop(position, None)
    return sorted(set(state.objects.inlined.absent().values()))


def _names_by_position(state: ClusterState) -> _Places:
    """Return the absent objects by the positions of their entries, which rise."""
    places: _Places = {}
    for number, position in state.objects.inlined.absent().items():
        places.setdefault(position, {})[state.objects.name(number)] = number
    return places


def _fill_from(state: ClusterState, entry: LogEntry, numbers: dict[ObjectName, int]) -> None:
    for event in decode_entry(entry.payload, entry.position).events:
        if isinstance(event, BatchesInlined):
            number = numbers.get(WalName(event.incarnation, event.counter))
            if number is not None:
                state.objects.inlined.fill(number, event.body)
