"""The log behind `s3:`: an entry is an object, and creating it is the append.

Create-if-absent does not protect deleted names: a writer that was paused during a trim could create
an old position again. So the trim boundary rises before any deletion. Appends and reads check the
boundary last, and entries below it do not count. Positions at or above the boundary were never
deleted, so an entry found there was the first one created (decision 12).

An append is a PUT and a GET that finds nothing.
"""

from collections.abc import Callable, Sequence
from typing import Final

import trio

from tidegate_coordination.log.metadata_log import (
    FIRST_POSITION,
    AppendResult,
    LogCapabilities,
    LogCorrupt,
    LogEntry,
    LogMisuse,
    LogUnavailable,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.logs.objects.boundary import Boundary
from tidegate_coordination.logs.objects.door import LogObjects
from tidegate_coordination.logs.objects.entries import EntryReader, Found, KeptEntries
from tidegate_coordination.logs.objects.growth import Growth
from tidegate_coordination.logs.objects.marker import check_marker
from tidegate_coordination.logs.objects.names import (
    ENTRIES,
    Kind,
    entry_name,
    entry_position,
    frame,
    random_nonce,
)
from tidegate_coordination.logs.objects.snapshots import ObjectSnapshots
from tidegate_storage.stores.counting_store import CountingStore, RequestSums
from tidegate_storage.stores.object_store import ObjectStore

CAPABILITIES: Final = LogCapabilities(
    forward_to_leader=True,
    typical_append_seconds=0.05,
    max_entry_bytes=1 << 20,
    inline_bytes_per_second=1 << 20,
)


async def open_objects(
    store: ObjectStore,
    prefix: str,
    *,
    new_nonce: Callable[[], str] = random_nonce,
    in_loop: bool = False,
) -> "ObjectLog":
    """Open the log below `prefix` ('' or ending with '/'), making it if there is none.

    Several may share a store; each `aclose` closes the store it was given. `in_loop`: use no
    threads, as under simulation.

    Raises:
        LogMisconfigured: the store is not fit for it, or cannot be used as it is set up.
        LogUnavailable: it does not answer now.
    """
    log = ObjectLog(store, prefix, new_nonce=new_nonce, in_loop=in_loop)
    await check_marker(log.store, prefix)
    await log.find_boundary()
    return log


class ObjectLog:
    """A log below a prefix of a store; `opening.open_log` or `open_objects` opens it.

    requests: sent to the object store since the log was opened. store: counts these requests.
    """

    def __init__(
        self, store: ObjectStore, prefix: str, *, new_nonce: Callable[[], str], in_loop: bool
    ) -> None:
        self.requests: Final = RequestSums()
        self.store: Final = CountingStore(store, self.requests)
        self._objects = LogObjects(self.store, prefix)
        self._boundary = Boundary(self._objects)
        self._entries = EntryReader(self._objects)
        self._snapshots = ObjectSnapshots(self._objects, new_nonce, in_loop=in_loop)
        self._kept = KeptEntries()
        self._growth = Growth()
        self._end_is_known = False
        # seen by wait(); not yet checked against the boundary
        self._glimpsed: tuple[int, bytes | None] = 0, None

    @property
    def capabilities(self) -> LogCapabilities:
        return CAPABILITIES

    async def find_boundary(self) -> None:
        """Read the boundary when the log is opened, so that no call asks for entries below it."""
        await self._boundary.find()
        self._growth.note(self._boundary.position - 1)

    # -- appending --------------------------------------------------------------------------------

    async def append(self, position: int, payload: bytes) -> AppendResult:
        CAPABILITIES.check_append(position, payload)
        await trio.lowlevel.checkpoint()
        if not await self._joins(position):
            return AppendResult.TRIMMED
        name = entry_name(position)
        created = await self._objects.create(name, frame(Kind.ENTRY, position, payload))
        if position < await self._checked_boundary():
            if created:  # a name that had been deleted: the entry does not count
                await self._objects.delete([name])
            return AppendResult.TRIMMED
        if created:
            self._kept.put(position, bytes(payload))
        self._growth.note(position)
        return AppendResult.APPENDED if created else AppendResult.CONFLICT

    async def _joins(self, position: int) -> bool:
        """Check that an append may write the position; return False if it is trimmed.

        Raises:
            LogCorrupt: the entry before it is missing.
        """
        if position < self._boundary.position:
            return False
        if position <= max(self._boundary.position, self._growth.last_seen + 1):
            return True
        if await self._entries.get(position - 1) is not None:
            self._growth.note(position - 1)
            return True
        boundary = await self._checked_boundary()
        if position > boundary:
            raise _too_far(position)
        return position == boundary

    # -- reading ----------------------------------------------------------------------------------

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await trio.lowlevel.checkpoint()
        if from_position < self._boundary.position:
            return Trimmed(self._boundary.position)
        if kept := self._kept.run(from_position):
            return _fitting(from_position, kept, max_bytes)
        known = self._growth.last_seen - from_position + 1
        position, first = self._glimpsed
        first = first if position == from_position else None
        found = await self._entries.get_ahead(from_position, max_bytes, first=first, known=known)
        # Read the boundary after the entries: if it has passed them, they do not count.
        if from_position < await self._checked_boundary():
            return Trimmed(self._boundary.position)
        payloads = _run(from_position, found)
        if not payloads:
            return await self._look_closer(from_position, found)
        return self._delivered(from_position, payloads, max_bytes)

    def _delivered(
        self, from_position: int, payloads: list[bytes], max_bytes: int
    ) -> list[LogEntry]:
        """Return the requested entries among the found ones; keep all others."""
        self._growth.note(from_position + len(payloads) - 1)
        entries = _fitting(from_position, payloads, max_bytes)
        for position in range(from_position + len(entries), from_position + len(payloads)):
            self._kept.put(position, payloads[position - from_position])
        return entries

    async def _look_closer(
        self, from_position: int, found: dict[int, Found]
    ) -> list[LogEntry] | Trimmed:
        """Return the answer to a read that found no entry; the log may end here."""
        is_within = (
            from_position <= self._growth.last_seen
            or any(isinstance(each, bytes) for each in found.values())
            or await self._is_followed(from_position)
        )
        if not is_within and await self._joins(from_position):
            self._growth.looked()
            return []
        payload = await self._entries.get(from_position)
        if from_position < (boundary := await self._checked_boundary()):
            return Trimmed(boundary)
        if payload is None:
            raise LogCorrupt(f"entry {from_position} is missing from the log of objects")
        return self._delivered(from_position, [payload], len(payload))

    async def _is_followed(self, position: int) -> bool:
        """Return whether the log has entries after a position; False once the end is known.

        At a start this distinguishes the end of the log from a lost entry, before an append could
        take the lost one's place.
        """
        if not self._end_is_known:
            listed = await self._objects.page(ENTRIES, after=entry_name(position), limit=1)
            self._end_is_known = not listed
        return not self._end_is_known

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await self._growth.wait(
            after_position, timeout_seconds, lambda: self._look_for(after_position + 1)
        )

    async def _look_for(self, position: int) -> None:
        payload = await self._entries.get(position)
        if payload is not None:
            self._glimpsed = position, payload
            self._growth.note(position)

    async def _checked_boundary(self) -> int:
        before = self._boundary.position
        boundary = await self._boundary.check()
        if boundary > before:
            self._kept.drop_below(boundary)
            self._growth.note(boundary - 1)
        return boundary

    # -- snapshots and trimming -------------------------------------------------------------------

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await self._snapshots.save(position, chunks)

    async def load_snapshot(self) -> Snapshot | None:
        return await self._snapshots.load()

    async def trim(self, before_position: int) -> None:
        if not await self._may_trim(before_position):
            raise LogMisuse(f"cannot trim below {before_position}: the log ends before")
        await self._boundary.raise_to(before_position)
        boundary = await self._checked_boundary()
        await self._objects.delete_while(ENTRIES, lambda name: entry_position(name) < boundary)

    async def _may_trim(self, before_position: int) -> bool:
        if before_position <= max(await self._checked_boundary(), self._growth.last_seen + 1):
            return True
        if await self._entries.get(before_position - 1) is not None:
            return True
        is_pristine = self._boundary.position == FIRST_POSITION
        return is_pristine and not await self._objects.page(ENTRIES, limit=1)

    async def aclose(self) -> None:
        await self._objects.aclose()


def _run(from_position: int, found: dict[int, Found]) -> list[bytes]:
    """The payloads up to the first that is missing or cannot be read.

    Raises:
        LogUnavailable, LogCorrupt: the first one cannot be read.
    """
    payloads: list[bytes] = []
    while isinstance(each := found.get(from_position + len(payloads)), bytes):
        payloads.append(each)
    if not payloads and isinstance(each, LogUnavailable | LogCorrupt):
        raise each
    return payloads


def _fitting(from_position: int, payloads: list[bytes], max_bytes: int) -> list[LogEntry]:
    entries: list[LogEntry] = []
    for position, payload in enumerate(payloads, start=from_position):
        max_bytes -= len(payload)
        if entries and max_bytes < 0:
            break
        entries.append(LogEntry(position, payload))
    return entries


def _too_far(position: int) -> LogCorrupt:
    return LogCorrupt(
        f"position {position} was requested, but entry {position - 1} is not in the log of objects"
    )
