"""Publishes a unit: makes the batches of its stored objects readable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    Failure,
    ProposalFailed,
)
from tidegate_coordination.rules.migration.mirrors import PlaceMirrors
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome
from tidegate_coordination.rules.records.wal import CommitWal

from .partition_import import PartitionImport
from .publishing import end_after, placing_before, proposals, refusal_of
from .work import ImportUnit, UnitDone


class UnitPublisher:
    """Publishes units of a link's partitions."""

    def __init__(self, coordinator: Coordinator, link: str) -> None:
        self._coordinator = coordinator
        self._link = link

    async def publish(self, each: PartitionImport, unit: ImportUnit, done: UnitDone) -> str:
        """Publish a unit; return why it was refused, "" if it was not.

        Raises:
          CoordinatorUnavailable, ProposalFailed: it is not known how much is published.
        """
        placing = placing_before(unit, done, each.end)
        if placing is not None:
            [is_placed] = await self._coordinator.propose(PlaceMirrors(self._link, (placing,)))
            if not is_placed:
                return "the copy ends elsewhere by now"
            each.end = placing.next_offset
        incarnation = self._coordinator.incarnation
        for answer in await self._committed(proposals(incarnation, unit, done, each.end)):
            if isinstance(answer, ProposalFailed | CoordinatorUnavailable):
                raise answer
            if refusal := refusal_of(answer):
                return refusal
        each.end = end_after(done, each.end)
        return ""

    async def _committed(
        self, wanted: Iterator[CommitWal]
    ) -> Sequence[list[BatchOutcome] | Failure]:
        """Propose all commits in order, without waiting in between; return their answers."""
        answers: list[list[BatchOutcome] | Failure] = []
        settled, count = trio.Event(), 0

        def take(answer: list[BatchOutcome] | Failure) -> None:
            answers.append(answer)
            settled.set()

        for each in wanted:
            count += 1
            self._coordinator.submit(each, take, take)
        while len(answers) < count:
            await settled.wait()
            settled = trio.Event()
        return answers
