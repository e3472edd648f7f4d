"""Snapshots in a log of objects: the chunks first, then the head, which makes them visible.

A name has a nonce, so it is used once. A save that was cut short has no head, so it is never
loaded. Like an older snapshot, such a save is deleted once two newer snapshots are complete.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from tidegate_coordination.log.metadata_log import LogCorrupt, LogUnavailable, Snapshot
from tidegate_coordination.log.snapshot_work import computed
from tidegate_coordination.log.snapshots import (
    check_chunk,
    chunks_after_head,
    frame_chunks,
    unframe_chunks,
)
from tidegate_coordination.logs.objects.door import each_at_once, raise_first
from tidegate_coordination.logs.objects.names import (
    CHUNKS,
    SNAPSHOTS,
    SnapshotId,
    chunk_name,
    oldest_kept,
    snapshot_id,
    snapshot_name,
)

_AT_ONCE: Final = 8  # chunks

_T = TypeVar("_T")


class SnapshotObjects(Protocol):
    """Where snapshots are kept; the calls are those of `door.LogObjects`."""

    async def create(self, name: str, body: bytes) -> bool: ...

    async def get_checked(self, name: str, check: Callable[[bytes], _T]) -> _T | None: ...

    async def names(self, folder: str) -> list[str]: ...

    async def delete_while(self, folder: str, is_old: Callable[[str], bool]) -> None: ...


class ObjectSnapshots:
    """`new_nonce` gives a text that no other saver was ever given.

    Checksums of a whole snapshot take time, so a thread computes them, unless `in_loop`.
    """

    def __init__(
        self, objects: SnapshotObjects, new_nonce: Callable[[], str], *, in_loop: bool
    ) -> None:
        self._objects = objects
        self._new_nonce = new_nonce
        self._in_loop = in_loop

    async def _compute(self, work: Callable[[], _T]) -> _T:
        return await computed(work, in_loop=self._in_loop)

    async def save(self, position: int, chunks: Sequence[bytes]) -> None:
        head, *framed = await self._compute(lambda: frame_chunks(position, chunks))
        snapshot = await self._next_id(position)
        created = await each_at_once(
            lambda index: self._objects.create(chunk_name(snapshot, index), framed[index - 1]),
            range(1, len(framed) + 1),
            at_once=_AT_ONCE,
        )
        raise_first(created)
        if not await self._objects.create(snapshot_name(snapshot), head):
            raise LogUnavailable(f"the snapshot {snapshot} was created by another: save it again")
        await self._drop_old()

    async def _next_id(self, position: int) -> SnapshotId:
        complete = await self._complete()
        numbers = [each.number for each in complete if each.position == position]
        return SnapshotId(position, max(numbers, default=0) + 1, self._new_nonce())

    async def load(self) -> Snapshot | None:
        """Return the newest snapshot that matches its checksums.

        Raises:
            LogUnavailable: the store does not answer now.
            LogCorrupt: there are complete snapshots, and none matches.
        """
        while True:
            complete = await self._complete()
            damage: LogCorrupt | None = None
            for snapshot in sorted(complete, reverse=True):
                try:
                    return await self._load(snapshot)
                except LogCorrupt as error:
                    damage = damage or error
            # A snapshot that was dropped for newer ones while it was read is not damaged.
            if complete == await self._complete():
                if damage:
                    raise damage
                return None

    async def _load(self, snapshot: SnapshotId) -> Snapshot:
        head = await self._get_chunk(snapshot_name(snapshot), 0)
        if head is None:
            raise LogCorrupt(f"the snapshot {snapshot} is gone")
        chunks = await each_at_once(
            lambda index: self._get_chunk(chunk_name(snapshot, index), index),
            range(1, chunks_after_head(head) + 1),
            at_once=_AT_ONCE,
        )
        raise_first(chunks)
        bodies = [chunks[index] for index in sorted(chunks)]
        present = [each for each in bodies if isinstance(each, bytes)]
        loaded = await self._compute(lambda: unframe_chunks([head, *present]))
        if loaded.position != snapshot.position:
            raise LogCorrupt(f"the snapshot {snapshot} says it is at {loaded.position}")
        return loaded

    async def _get_chunk(self, name: str, index: int) -> bytes | None:
        return await self._objects.get_checked(name, partial(check_chunk, index))

    async def _complete(self) -> list[SnapshotId]:
        return [snapshot_id(each) for each in await self._objects.names(SNAPSHOTS)]

    async def _drop_old(self) -> None:
        """Delete snapshots older than the two newest; heads first, so that no head lacks its
        chunks.
        """
        oldest = oldest_kept(await self._complete())
        if oldest is not None:
            for folder in (SNAPSHOTS, CHUNKS):
                await self._objects.delete_while(folder, partial(_is_before, oldest))


def _is_before(oldest: SnapshotId, name: str) -> bool:
    return snapshot_id(name) < oldest
