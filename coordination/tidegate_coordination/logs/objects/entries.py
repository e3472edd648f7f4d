"""Reads entries of a log of objects: ahead, several at a time, and keeps some of them.

At the end of the log, one GET finds that there are no more entries. While entries are found, more
and more of them are requested at once. Beyond a number, a LIST first finds their names and sizes.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from tidegate_coordination.log.metadata_log import LogCorrupt, LogUnavailable
from tidegate_coordination.logs.objects.door import LIST_LIMIT, Listed, LogObjects, each_at_once
from tidegate_coordination.logs.objects.names import (
    ENTRIES,
    Kind,
    entry_name,
    entry_position,
    unframe,
)

_AT_ONCE: Final = 32
_UNSEEN_AHEAD: Final = 8  # entries requested at once while their sizes are unknown
_KEPT_BYTES: Final = 8 << 20

Found: TypeAlias = bytes | LogUnavailable | LogCorrupt | None


class KeptEntries:
    """Payloads in memory, up to a bound in bytes; the oldest is evicted first."""

    def __init__(self, max_bytes: int = _KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._payloads: dict[int, bytes] = {}
        self._bytes = 0

    def put(self, position: int, payload: bytes) -> None:
        if position in self._payloads:
            return
        self._payloads[position] = payload
        self._bytes += len(payload)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._payloads)))

    def run(self, from_position: int) -> list[bytes]:
        """The payloads from a position on, up to the first gap."""
        found: list[bytes] = []
        while (payload := self._payloads.get(from_position + len(found))) is not None:
            found.append(payload)
        return found

    def drop_below(self, position: int) -> None:
        for each in [each for each in self._payloads if each < position]:
            self._drop(each)

    def _drop(self, position: int) -> None:
        self._bytes -= len(self._payloads.pop(position))


class EntryReader:
    """Gets entries; the caller must check the trim boundary before it uses them."""

    def __init__(self, objects: LogObjects) -> None:
        self._objects = objects

    async def get(self, position: int) -> bytes | None:
        """Return the payload at a position, checked; None if there is no entry.

        Raises:
            LogUnavailable: the store does not answer now.
            LogCorrupt: the entry is damaged.
        """
        check = partial(unframe, Kind.ENTRY, position)
        return await self._objects.get_checked(entry_name(position), check)

    async def get_ahead(
        self, position: int, max_bytes: int, *, first: bytes | None, known: int
    ) -> dict[int, Found]:
        """Return the entries from a position on, up to the first missing one or `max_bytes`.

        Returns one entry at least, if there is one. `first`: the entry at `position`, if the caller
        has read it already. `known`: how many entries certainly exist.
        """
        found: dict[int, Found] = {} if first is None else {position: first}
        window, got_bytes = min(max(known - len(found), 0) + 1, _UNSEEN_AHEAD), 0
        while not found or got_bytes < max_bytes:
            positions = await self._plan(position + len(found), window, max_bytes - got_bytes)
            more: dict[int, Found] = await each_at_once(self.get, positions, at_once=_AT_ONCE)
            found |= more
            payloads = [each for each in more.values() if isinstance(each, bytes)]
            if len(payloads) < len(more):
                break
            got_bytes += sum(map(len, payloads))
            window *= 2
        return found

    async def _plan(self, position: int, window: int, max_bytes: int) -> Sequence[int]:
        if window > _UNSEEN_AHEAD:
            after = entry_name(position - 1)
            listed = await self._objects.page(ENTRIES, after=after, limit=LIST_LIMIT)
            if planned := _those_that_fit(listed, position, max_bytes):
                return planned
        return range(position, position + min(window, _UNSEEN_AHEAD))


def _those_that_fit(listed: Sequence[Listed], position: int, max_bytes: int) -> Sequence[int]:
    """Return the positions from `position` on that are listed without a gap.

    They are one position, if it is listed, and then as many as fit into `max_bytes`.
    """
    count = 0
    for each in listed:
        max_bytes -= each.size_bytes
        if entry_position(each.name) != position + count or (count and max_bytes < 0):
            break
        count += 1
    return range(position, position + count)
