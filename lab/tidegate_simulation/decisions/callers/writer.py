"""A producer as its client knows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate_coordination.rules.records.batch_outcomes import BatchFacts

from ..promises.moment import Place


@dataclass(slots=True)
class Writer:
    """A producer.  waits: by partition, the batch without an answer.  sequences: the next ones.

    name: its transactional id, or "".  is_open: whether its transaction may be open.
    """

    name: str = ""
    producer_id: int = -1
    epoch: int = 0
    is_open: bool = False
    sequences: dict[Place, int] = field(default_factory=dict[Place, int])
    waits: dict[Place, BatchFacts] = field(default_factory=dict[Place, BatchFacts])

    def begin(self, producer_id: int, epoch: int) -> None:
        """Continue with another epoch."""
        self.producer_id, self.epoch, self.is_open = producer_id, epoch, False
        self.sequences.clear()
        self.waits.clear()
