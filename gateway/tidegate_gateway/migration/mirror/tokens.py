"""The tokens of mirrored batches at the WAL writer, and the bytes that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from tidegate_coordination.client.fetched_batches import FetchedBatch
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome

from ...produce.wal_writer import WalWriter
from .fetch_round import PARTITION_BYTES
from .partition import PartitionMirror


class MirrorBytes:
    """Bounds the bytes of mirrored batches that are not committed yet, of all links together."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._held = 0
        self._room = trio.Event()
        self.copied_bytes = 0

    @property
    def held(self) -> int:
        """Return the bytes that are not committed yet."""
        return self._held

    def share_of(self, fetches: int) -> int:
        """Return how many bytes each of `fetches` answers may have, so that all keep the limit.

        It is at least one partition's part.
        """
        return max(self._most // max(fetches, 1), PARTITION_BYTES)

    async def wait_for_room(self) -> None:
        """Wait until there is room; the bytes that are taken then may exceed the bound once."""
        while self._held >= self._most:
            await self._room.wait()

    def take(self, size: int) -> None:
        """Count the bytes of a batch."""
        self._held += size

    def release(self, size: int, *, is_copied: bool) -> None:
        """Release the bytes of a settled batch."""
        self._held -= size
        self.copied_bytes += size if is_copied else 0
        self._room.set()
        self._room = trio.Event()


class MirrorToken:
    """Waits for the commit of one mirrored batch."""

    __slots__ = ("_bytes", "_mirror", "_size", "is_walked", "mirrored")

    def __init__(self, mirror: PartitionMirror, held: MirrorBytes, batch: FetchedBatch) -> None:
        self.mirrored = batch.mirrored
        self.is_walked = batch.is_walked
        self._mirror = mirror
        self._bytes = held
        self._size = len(batch.data)

    @property
    def waiting_client(self) -> None:
        """See wal_commits.BatchToken.  No client waits for a mirrored batch."""
        return None

    def settle(self, outcome: BatchOutcome) -> None:
        """Handle the batch's outcome."""
        self._bytes.release(self._size, is_copied=outcome.refusal is None)
        self._mirror.settled(outcome, trio.current_time())

    def abort(self) -> None:
        """Note that the outcome is unknown: the mirror then rewinds."""
        self._bytes.release(self._size, is_copied=False)
        self._mirror.settled(None, trio.current_time())

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        """See wal_commits.BatchToken.  Never called: only clients' batches are turned back."""
        self.abort()


async def write(
    writer: WalWriter, held: MirrorBytes, mirror: PartitionMirror, batches: Sequence[FetchedBatch]
) -> None:
    """Pass the batches of a partition to the WAL writer, in order."""
    for each in batches:
        await held.wait_for_room()
        await writer.wait_for_room()
        if mirror.is_lost or mirror.end != each.mirrored.after:
            return  # an earlier batch was refused, or another fetch has already brought this one
        token = MirrorToken(mirror, held, each)
        held.take(len(each.data))
        mirror.given(each.mirrored.next_offset, each.mirrored.leader_epoch)
        writer.append_mirrored(mirror.topic.topic_id, mirror.index, each.data, each.facts, token)
