"""Rehearses a migration: reads a part of each topic of a source, and changes nothing anywhere.

Every batch is checked in the same way as by the mirror.  The rehearsal also gets sizes and configs,
and measures a few answers.  From all this it estimates the times of copy and switch, and names
obstacles.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple, cast

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.fetched_batches import BadBatch, fetched_batches
from tidegate_coordination.client.source_bounds import (
    EARLIEST,
    LATEST,
    Place,
    source_offsets,
    stable_offsets,
)
from tidegate_coordination.client.walked_batches import DECOMPRESSED_BYTES, walked_batches

from ..mirror.topic_sync import configs_of
from ..mirror.verifying import FETCH_BYTES, fetched
from .estimates import Problem, config_problems, transaction_problems
from .looking import Candidate

READ_BYTES: Final = 64 << 20
"""The bytes read of all topics together; at least one batch of each topic is read."""
ROUND_TRIPS: Final = 9


class TopicRead(NamedTuple):
    """The batches of a topic that were read, all of one partition.  problem: of a batch, or ""."""

    topic: str
    partition: int
    size_bytes: int
    batches: int
    problem: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The result of a rehearsal.

    read_seconds: for all reads, one after another.  metadata_seconds, offsets_seconds: the medians
    of answers about all topics at once.  problems: the obstacles to copy or switch.
    """

    reads: Sequence[TopicRead]
    read_seconds: float
    metadata_seconds: float
    offsets_seconds: float
    configs: Mapping[str, Mapping[str, str]]
    problems: Sequence[Problem]

    @property
    def read_bytes(self) -> int:
        """Return how many bytes were read."""
        return sum(each.size_bytes for each in self.reads)


async def rehearse(source: ClassicCluster, topics: Sequence[Candidate]) -> Rehearsal:
    """Rehearse with topics of a source; its metadata must include them.

    Raises:
      ClassicError: the source does not answer.
    """
    names = [each.name for each in topics]
    places = [(each, index) for each in names for index in source.metadata.topics[each].partitions]
    starts = await source_offsets(source, places, EARLIEST)
    ends = await source_offsets(source, places, LATEST)
    begun = trio.current_time()
    reads = [await _read(source, each, starts, ends, len(names)) for each in names]
    read_seconds = trio.current_time() - begun
    configs = await configs_of(source, names)
    stable = await stable_offsets(source, places)
    problems = [Problem(each.topic, each.problem) for each in reads if each.problem]
    problems += config_problems(configs)
    problems += transaction_problems(ends, stable)
    return Rehearsal(
        reads,
        read_seconds,
        await _median_seconds(lambda: source.refresh(names)),
        await _median_seconds(lambda: source_offsets(source, places, LATEST)),
        configs,
        problems,
    )


async def _median_seconds(ask: Callable[[], Awaitable[object]]) -> float:
    times: list[float] = []
    for _ in range(ROUND_TRIPS):
        begun = trio.current_time()
        await ask()
        times.append(trio.current_time() - begun)
    return median(times)


async def _read(
    source: ClassicCluster,
    topic: str,
    starts: Mapping[Place, int | str],
    ends: Mapping[Place, int | str],
    topics: int,
) -> TopicRead:
    """Read the first batches of the partition with the most offsets."""
    bounds = [
        (end - start, index, start, end)
        for index in source.metadata.topics[topic].partitions
        if isinstance(start := starts.get((topic, index)), int)
        and isinstance(end := ends.get((topic, index)), int)
    ]
    if not bounds:
        return TopicRead(topic, -1, 0, 0, "the source does not say where its partitions end")
    _, index, position, end = max(bounds)
    size, batches, problem = 0, 0, ""
    try:
        while position < end and size < READ_BYTES // topics:
            room = min(READ_BYTES // topics - size, FETCH_BYTES)
            data = await fetched(source, topic, index, position, max_bytes=room)
            whole = fetched_batches(cast("memoryview", data.records or b""), position)
            found = walked_batches(whole, DECOMPRESSED_BYTES)
            if not found:
                break
            size += sum(len(each.data) for each in found)
            batches += len(found)
            position = found[-1].mirrored.next_offset
    except (ClassicError, BadBatch) as error:
        problem = f"partition {index}: {error}"
    return TopicRead(topic, index, size, batches, problem)
