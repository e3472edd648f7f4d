"""Lists the skipped runs that are kept, and reads them to find out which can be brought back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.records.runs import RunRow

from .readability import WORKERS, Problem, ReadabilityCheck


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A skipped run.

    partition: the partition's number; index: the partition's index in its topic.  records: how many
    records come back with the run.  problem: found by reading the run; None if it can be read.
    reason: the reason of the problem.
    """

    partition: int
    index: int
    row: RunRow
    object_key: str
    records: int
    problem: Problem | None = None
    reason: str = ""


@dataclass(slots=True)
class Ended:
    """The result of bringing runs back, or of giving them up.

    done: the runs that were brought back or given up.  unreadable: the runs that could not be read.
    is_compacted: whether some runs stay skipped because their topic is compacted.  All other runs
    changed meanwhile; check again.
    """

    done: list[KeptRun] = field(default_factory=list[KeptRun])
    unreadable: list[KeptRun] = field(default_factory=list[KeptRun])
    is_compacted: bool = False


def kept_runs(
    coordinator: Coordinator, check: ReadabilityCheck, partitions: Sequence[int]
) -> list[KeptRun]:
    """Return the kept runs of partitions, in the order of offsets; partitions: by number."""
    found: list[KeptRun] = []
    for number in partitions:
        partition = coordinator.state.partitions.get(number)
        for row in (partition.kept or ()) if partition is not None else ():
            assert partition is not None
            records = row.next_offset - max(row.base_offset, partition.floor)
            key = "" if row.is_marker else check.key_of(row)
            found.append(KeptRun(number, partition.index, row, key, records))
    return found


async def read_kept(
    coordinator: Coordinator,
    check: ReadabilityCheck,
    runs: Sequence[KeptRun],
    on_progress: Callable[[int], None] | None = None,
) -> list[KeptRun]:
    """Read and verify kept runs; return them with their problems.

    on_progress: called with the size of each run.
    """
    read = list(runs)
    waiting = iter(list(enumerate(runs)))

    async def work() -> None:
        for at, each in waiting:
            partition = coordinator.state.partitions.get(each.partition)
            if partition is None or each.row.is_marker:
                # the rules will answer that the topic was deleted; a marker is in no object
                continue
            problem, reason = await check.read_patiently(partition, each.row)
            read[at] = replace(each, problem=problem, reason=reason)
            if on_progress is not None:
                on_progress(each.row.length)

    async with trio.open_nursery() as nursery:
        for _ in range(WORKERS):
            nursery.start_soon(work)
    return read
