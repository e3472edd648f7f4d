"""Checks whether a log is still the one that was copied.

If a log loses its end, and gateways then append to it, it holds other entries than its copies at
the same positions.  Positions and incarnations were then given out twice, and the orphan scan would
take objects that the lost entries named for orphans.  So a copier compares log and copies before it
copies, and a gateway compares them before it starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

import trio

from ..log.access import READ_AGAIN_SECONDS
from ..log.metadata_log import LogCorrupt, LogEntry, LogMisconfigured, MetadataLog, Trimmed
from ..log.whole_entries import expect_whole
from .copies import DamagedCopy, EntriesName, digest_of
from .shelf import Shelf

_LOOKS: Final = 3


class Mark(NamedTuple):
    """The facts by which an entry is recognised."""

    position: int
    digest: str


def mark_of(entry: LogEntry) -> Mark:
    """Return the mark of an entry."""
    return Mark(entry.position, digest_of(entry.payload))


async def newest_mark(shelf: Shelf, names: Iterable[EntriesName]) -> Mark | None:
    """Return the mark of the newest entry that was copied; None without one that can be read.

    Raises:
      StoreUnavailable: try again later.
    """
    for name in islice(sorted(names, key=lambda each: each.last, reverse=True), _LOOKS):
        try:
            return mark_of((await shelf.read_entries(name))[-1])
        except DamagedCopy:
            continue
    return None


async def see_same(log: MetadataLog, copied: Mark) -> None:
    """Check that the log holds an entry as it was copied; a trimmed entry passes.

    Raises:
      LogMisconfigured: the log holds another entry there.
      LogCorrupt: the log's entry there is damaged.
      LogUnavailable: the log does not answer.
    """
    found = await _read(log, copied.position)
    if found is None or mark_of(found) == copied:
        return
    raise LogMisconfigured(
        f"at position {copied.position} it holds another entry than its copies in the object store:"
        " it lost its end and was written on, or gateways use two logs. Stop all gateways, and give"
        " the log that was copied; if there is none any more, `tidegate log restore` makes a new"
        " one from the copies, and from the records written since"
    )


async def _read(log: MetadataLog, position: int) -> LogEntry | None:
    """Return the entry at a position; None for none.

    A damaged entry is read a second time, as the damage may have happened in transit: it must not
    count as another log's entry.
    """
    try:
        return await _read_whole(log, position)
    except LogCorrupt:
        await trio.sleep(READ_AGAIN_SECONDS)
        return await _read_whole(log, position)


async def _read_whole(log: MetadataLog, position: int) -> LogEntry | None:
    found = await log.read(position, 1)
    if isinstance(found, Trimmed) or not found:
        return None
    expect_whole(found[:1])
    return found[0]
