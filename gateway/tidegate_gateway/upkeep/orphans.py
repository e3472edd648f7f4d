"""Deletes orphans: objects that no entry of the metadata log names or ever will name.

A gateway that dies leaves objects that it stored and did not commit; a pipeline task leaves objects
of failed attempts.  Once an incarnation has ended, it writes no more entries (docs/architecture.md,
"What stays true", 8).  So an object of an ended incarnation that the state does not name is an
orphan.  The scan skips objects of live incarnations, since the next entry may name them.  It also
skips objects of other timelines, since a restore may need them.

If a log loses its last entries, an incarnation that ended in them is live again, and objects that
the lost entries named look like orphans.  So before a deletion the log is copied up to the position
of the scan.  Copying also compares the log with its copies.  If the log is not the one that was
copied, the scan deletes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import structlog
import trio

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import ObjectName, SegmentName, WalName
from tidegate_storage.objects.keys import (
    parse_segment_key,
    parse_wal_key,
    segment_prefix,
    wal_prefix,
)
from tidegate_storage.stores.object_store import ObjectStore, StoreMisconfigured, StoreUnavailable

_log = structlog.get_logger("tidegate.orphans")

DELETED_AT_ONCE = 1000
_NUMBERS_A_TURN = 10_000

_Named: TypeAlias = dict[int, set[ObjectName]]


class OrphanScan:
    """Scans the store; see the module's head.

    check_owner: raises if the prefix is another log's; called before each deletion.  see_copied:
    copies the log up to a position, or raises if that fails; called before each deletion.
    """

    def __init__(
        self,
        state: ClusterState,
        store: ObjectStore,
        *,
        check_owner: Callable[[], Awaitable[object]],
        see_copied: Callable[[int], Awaitable[object]],
    ) -> None:
        self._state = state
        self._store = store
        self._check_owner = check_owner
        self._see_copied = see_copied
        self._failure: Exception | None = None
        self.deleted = 0
        self.scans = 0

    async def run_once(self) -> int:
        """List all objects of this timeline, and delete the orphans; return how many there were.

        Raises:
          StoreUnavailable, StoreMisconfigured: some objects could not be listed or deleted; try
            again later.
          LogUnavailable: the log could not be copied up to the scan's position; try again later.
        """
        position = self._state.position
        # Only incarnations that have ended by now, since the state holds all names of their
        # objects.
        last = self._state.gateways.next_incarnation
        ended = [each for each in range(1, last) if not self._state.gateways.is_live(each)]
        named = await self._named(frozenset(ended))
        keys: list[str] = []
        found = 0
        self._failure = None
        async for key in self._orphans(frozenset(ended), named):
            keys.append(key)
            found += 1
            if len(keys) == DELETED_AT_ONCE:
                await self._delete(keys, position)
                keys = []
        if keys:
            await self._delete(keys, position)
        if self._failure is not None:
            raise self._failure
        self.scans += 1
        return found

    async def _named(self, ended: frozenset[int]) -> _Named:
        """Return the object names of ended incarnations; the state never gets more of these."""
        named: _Named = defaultdict(set)
        objects = self._state.objects
        for at, number in enumerate(objects.numbers()):
            name = objects.name_or_none(number)
            if name is not None and name.incarnation in ended:
                named[name.incarnation].add(name)
            if at % _NUMBERS_A_TURN == 0:
                await trio.lowlevel.checkpoint()
        return named

    async def _orphans(self, ended: frozenset[int], named: _Named) -> AsyncIterator[str]:
        state = self._state
        for prefix, parse in (
            (wal_prefix(state.cluster_id, state.timeline), _wal_name),
            (segment_prefix(state.cluster_id, state.timeline), _segment_name),
        ):
            after = ""
            while page := await self._store.list(prefix, start_after=after):
                after = page[-1].key
                for info in page:
                    name = parse(info.key)
                    if name is None or name.incarnation not in ended:
                        continue
                    if name not in named[name.incarnation]:
                        yield info.key

    async def _delete(self, keys: list[str], position: int) -> None:
        await self._see_copied(position)
        await self._check_owner()
        try:
            await self._store.delete_many(keys)
        except (StoreMisconfigured, StoreUnavailable) as error:
            self._failure = error  # the scan continues, since other batches may succeed
            return
        self.deleted += len(keys)
        _log.info("deleted objects that no log entry names", count=len(keys), first=keys[0])


def _wal_name(key: str) -> ObjectName | None:
    try:
        found = parse_wal_key(key)
    except ValueError:
        return None
    return WalName(found.incarnation, found.counter)


def _segment_name(key: str) -> ObjectName | None:
    try:
        found = parse_segment_key(key)
    except ValueError:
        return None
    return SegmentName(
        found.incarnation, found.attempt, found.topic_id, found.partition, found.base_offset
    )
