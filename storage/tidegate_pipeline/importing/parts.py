"""The parts of an import's driver: the source, the runner, and the counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tidegate_coordination.state.topics import Topic

from .work import ImportTask, UnitDone

Place: TypeAlias = tuple[str, int]
Bounds: TypeAlias = Mapping[Place, tuple[int, int] | str]
"""By topic and partition: where the source begins and ends, or why that is not known."""


class SourceSide(Protocol):
    """The source, as the driver itself asks it."""

    async def bounds(self, topics: Sequence[Topic]) -> Bounds:
        """Return where the partitions of topics begin and end."""
        ...

    def obstacle(self, topic: Topic, index: int, end: int) -> str:
        """Return why a copy that ends there cannot continue with this source; "" if it can.

        Files begin where the source's log begins, or later if its older part is in tiered storage.
        """
        ...

    async def difference(self, topic: Topic, index: int, epoch_ends: Mapping[int, int]) -> str:
        """Return how the source's history differs from these epoch ends; "" if it does not.

        Also return "" if that is not known.  Units are read at different times, and meanwhile the
        source may lose records in an unclean leader election.
        """
        ...


class ImportRunner(Protocol):
    """Runs tasks somewhere: in this process, or on Spark."""

    async def slots(self) -> int:
        """Return how many tasks can run at once."""
        ...

    async def run(self, task: ImportTask) -> Sequence[UnitDone]:
        """Return the results; units of a lost task have none.  May raise, to end the import."""
        ...


@dataclass(slots=True)
class ImportCounters:
    """The published work; size_bytes: the bytes of the batches."""

    size_bytes: int = 0
    batches: int = 0
    objects: int = 0
    failed: int = 0
