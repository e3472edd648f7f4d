"""Batches of mirrored partitions: they have their offsets already.

Two gateways may mirror a partition for a while, and one may be late.  A batch therefore names the
end of the partition that it follows.  If the partition ends elsewhere, the batch is refused, and
its gateway looks up the end again.  So no batch is written twice, and none is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ...events.cluster import Event, ProducerBatch
from ...events.links import (
    STEP_ABORTED,
    STEP_BEGAN,
    STEP_COMMITTED,
    EpochBegan,
    MirrorStep,
    RunsMirrored,
)
from ...state.records.producers import KEPT_BATCHES

PLAIN: Final = 0
TRANSACTIONAL: Final = 1
ABORT: Final = 2
COMMIT: Final = 3
_STEPS: Final = {TRANSACTIONAL: STEP_BEGAN, ABORT: STEP_ABORTED, COMMIT: STEP_COMMITTED}


class MirroredBatch(NamedTuple):
    """The facts of a mirrored batch that BatchFacts do not have.

    after: where the partition ends before it, at most base_offset.  next_offset: after its last
      offset.  leader_epoch: -1 if it has none.  kind: PLAIN, TRANSACTIONAL, ABORT or COMMIT.
    """

    after: int
    base_offset: int
    next_offset: int
    leader_epoch: int
    kind: int

    def follows(self, end: int) -> bool:
        """Return whether the batch can be written to a partition that ends at `end`."""
        return self.after == end and end <= self.base_offset < self.next_offset


class MirrorJudge:
    """Notes the facts of the accepted mirrored batches of one object.

    by_position: the mirrored batches of the object, by their first byte.
    """

    def __init__(self, by_position: Mapping[int, MirroredBatch]) -> None:
        self._by_position: Final = by_position
        self._steps: Final[list[MirrorStep]] = []
        self._open: Final[set[tuple[int, int]]] = set()
        self._epochs: Final[list[EpochBegan]] = []
        self._latest: Final[dict[int, int]] = {}

    def find(self, position: int) -> MirroredBatch | None:
        """Return the mirrored batch that begins at a byte of the object."""
        return self._by_position.get(position)

    def accept(
        self, number: int, epoch: int, batch: MirroredBatch, producer: tuple[int, int]
    ) -> None:
        """Note a batch of a partition, whose epoch was `epoch`.  producer: its id and epoch."""
        latest = self._latest.get(number, epoch)
        if batch.leader_epoch > latest:
            self._epochs.append(EpochBegan(number, batch.leader_epoch, batch.base_offset))
            self._latest[number] = batch.leader_epoch
        if batch.kind == PLAIN:
            return
        producer_id, producer_epoch = producer
        key = (number, producer_id)
        if batch.kind == TRANSACTIONAL and key in self._open:
            return
        offset, kind = batch.base_offset, _STEPS[batch.kind]
        self._steps.append(MirrorStep(number, producer_id, producer_epoch, offset, kind))
        if batch.kind == TRANSACTIONAL:
            self._open.add(key)
        else:
            self._open.discard(key)

    def events(self) -> tuple[Event, ...]:
        """Return the event that follows WalCommitted, if there is anything to say."""
        if not self._steps and not self._epochs:
            return ()
        return (RunsMirrored(tuple(self._steps), tuple(self._epochs)),)


def last_batches(batches: list[ProducerBatch]) -> list[ProducerBatch]:
    """Return the batches of each producer in a partition that the state will keep.

    A mirror may commit thousands of batches of one producer at once.
    """
    counts: dict[tuple[int, int], int] = {}
    kept: list[ProducerBatch] = []
    for each in reversed(batches):
        key = each.partition, each.producer_id
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= KEPT_BATCHES:
            kept.append(each)
    kept.reverse()
    return kept
