"""Malformed batches at the source, with true CRCs; after a while each becomes sound again.

A gateway must copy neither a malformed batch nor the batches after it.  The source remembers sound
batches only, so the checks find a copy of a malformed one (invariants/mirror_checks.py).
"""

from __future__ import annotations

from typing import Final

from tidegate_protocol.batches import read_header, with_header

from ..classic.log.model_log import StoredBatch
from ..classic.model_topics import ModelPartition, PartitionKey


class SpoiltBatches:
    """The malformed batches of one source."""

    def __init__(self) -> None:
        self._next: Final[set[PartitionKey]] = set()
        self._sound: Final[dict[PartitionKey, StoredBatch]] = {}

    def await_batch(self, key: PartitionKey) -> bool:
        """Make the next batch of a partition malformed; return False if one is, or shall be."""
        if self.holds(key):
            return False
        self._next.add(key)
        return True

    def holds(self, key: PartitionKey) -> bool:
        """Return whether a batch of a partition is malformed, or the next one will be."""
        return key in self._next or key in self._sound

    def appended(self, partition: ModelPartition) -> None:
        """Make the last batch of a partition malformed, if that is due.  No follower has it yet."""
        last = partition.log.batches[-1]
        if partition.key not in self._next or last.header.is_control:
            return
        self._next.discard(partition.key)
        self._sound[partition.key] = last
        header = read_header(last.raw)
        raw, _ = with_header(
            memoryview(bytes(last.raw)), header._replace(record_count=header.record_count + 1)
        )
        partition.log.batches[-1] = last._replace(raw=bytes(raw))

    def heal(self, partition: ModelPartition) -> None:
        """Replace the malformed batch of a partition by the sound one, if the log still has it."""
        self._next.discard(partition.key)
        sound = self._sound.pop(partition.key, None)
        if sound is None:
            return
        batches = partition.log.batches
        for at, each in enumerate(batches):
            if each.header == sound.header:
                batches[at] = sound
