"""The classic cluster of a link: its topics take batches unless they are fenced."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from tidegate_coordination.rules.records.mirrored_batches import (
    ABORT,
    COMMIT,
    PLAIN,
    TRANSACTIONAL,
)

FOREIGN: Final = 5 << 40
"""The first of its producer ids; no own one is among them."""
PRODUCERS: Final = 3
_GAP_SHARE: Final = 0.15


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """kind, leader_epoch: see MirroredBatch."""

    base_offset: int
    next_offset: int
    producer_id: int
    kind: int
    leader_epoch: int


@dataclass(slots=True)
class SourcePartition:
    """log_start, next_offset: its bounds; the last batch may end before next_offset."""

    log_start: int = 0
    next_offset: int = 0
    leader_epoch: int = 0
    batches: list[SourceBatch] = field(default_factory=list[SourceBatch])
    open: set[int] = field(default_factory=set[int])

    def write(self, rng: Random) -> None:
        """Take a batch of a client, or move a bound."""
        draw = rng.random()
        if draw < 0.05:
            self.leader_epoch += 1
        elif draw < 0.10:
            self.log_start = rng.randint(self.log_start, self.next_offset)
        elif draw < 0.15 and not self.open:
            self.next_offset += rng.randint(1, 3)  # compacted away
        else:
            self._append(rng)

    def _append(self, rng: Random) -> None:
        producer_id, kind = -1, PLAIN
        if rng.random() < 0.3:
            producer_id = FOREIGN + rng.randrange(PRODUCERS)
            is_end = producer_id in self.open and rng.random() < 0.6
            kind = rng.choice((ABORT, COMMIT)) if is_end else TRANSACTIONAL
            (self.open.discard if is_end else self.open.add)(producer_id)
        base = self.next_offset + (rng.randint(1, 2) if rng.random() < _GAP_SHARE else 0)
        self.next_offset = base + (1 if kind in (ABORT, COMMIT) else rng.randint(1, 4))
        self.batches.append(
            SourceBatch(base, self.next_offset, producer_id, kind, self.leader_epoch)
        )

    def after(self, offset: int) -> list[SourceBatch]:
        """Return the batches from an offset on."""
        return [each for each in self.batches if each.base_offset >= offset]

    def take_back(self, offset: int) -> None:
        """Append the batches that the other cluster writes back, up to an offset."""
        if offset > self.next_offset:
            self.batches.append(SourceBatch(self.next_offset, offset, -1, PLAIN, self.leader_epoch))
            self.next_offset = offset


@dataclass(slots=True)
class SourceTopic:
    """is_fenced: it refuses all writes but those of the link."""

    topic_id: bytes
    name: str
    partitions: list[SourcePartition]
    is_fenced: bool = False


class Source:
    """See the module's head.  topics: by id."""

    def __init__(self, rng: Random) -> None:
        self._rng: Final = rng
        self.topics: Final[dict[bytes, SourceTopic]] = {}

    def make(self, name: str) -> SourceTopic:
        """Make a topic."""
        topic = SourceTopic(self._rng.randbytes(16), name, [SourcePartition()])
        self.topics[topic.topic_id] = topic
        return topic

    def write(self) -> None:
        """Let clients write to a topic that is not fenced."""
        found = [each for each in self.topics.values() if not each.is_fenced]
        if not found:
            return
        topic = self._rng.choice(found)
        if self._rng.random() < 0.03 and len(topic.partitions) < 3:
            topic.partitions.append(SourcePartition())
        for _ in range(self._rng.randint(1, 3)):
            self._rng.choice(topic.partitions).write(self._rng)
