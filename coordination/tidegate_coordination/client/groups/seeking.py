"""Where a group continues reading after `tidegate group seek`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tidegate_runtime.settings_texts import BadSource

from ..cluster import ClassicCluster
from ..consumer.positions import Position, PositionKind
from ..consumer.start_offsets import known_offsets, start_offsets
from ..failed import Failed
from ..source_bounds import EARLIEST, LATEST, Place, source_offsets
from ..topic_calls import known_topic, no_partition
from .group_calls import DEAD, EMPTY, group_of
from .group_offsets import GroupOffset, commit, committed

_IDLE: Final = frozenset({EMPTY, DEAD})
_NO_EPOCH: Final = -1


class Move(NamedTuple):
    """A committed offset that changes. before: None for none.

    note: why the offset is not the requested one, or ""
    """

    topic: str
    partition: int
    before: int | None
    after: int
    note: str = ""


class Target(NamedTuple):
    """A topic, or one partition of it."""

    topic: str
    partition: int | None


def read_target(text: str) -> Target:
    """Read TOPIC or TOPIC:PARTITION; no topic's name has a colon.

    Raises:
      BadSource: the text is neither.
    """
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not (partition.isascii() and partition.isdecimal())):
        raise BadSource(f"{text} is not TOPIC or TOPIC:PARTITION, such as orders:0")
    return Target(topic, int(partition) if colon else None)


async def check_idle(cluster: ClassicCluster, group: str) -> None:
    """Check that a group has no members, since members would continue at their own positions.

    Raises:
      Failed: it has members.
      ClassicError: the cluster does not say.
    """
    found = await group_of(cluster, group)
    if found.state not in _IDLE:
        raise Failed(
            f"group {group} is {found.state}: offsets can only be changed while it has no members."
            " Stop its consumers first"
        )


async def planned(
    cluster: ClassicCluster, group: str, targets: Sequence[Target], to: Position
) -> list[Move]:
    """Return the moves, by topic and partition.  An offset outside of a partition is moved into it.

    Raises:
      Failed: a partition does not exist, or has no offset to shift.
      ClassicError: the cluster does not say.
    """
    places = await _places(cluster, targets)
    await cluster.refresh({topic for topic, _ in places})
    before = {(p.topic, p.partition): p.offset for p in await committed(cluster, group)}
    starts = known_offsets(await source_offsets(cluster, places, EARLIEST))
    ends = known_offsets(await source_offsets(cluster, places, LATEST))
    wanted: Mapping[Place, int]
    if to.kind is PositionKind.SHIFT:
        wanted = _shifted(group, places, before, to.number)
    else:
        wanted = await start_offsets(cluster, places, to, ends)
    return [
        _move(each, before.get(each), wanted[each], starts[each], ends[each]) for each in places
    ]


async def _places(cluster: ClassicCluster, targets: Sequence[Target]) -> list[Place]:
    found: set[Place] = set()
    for topic, partition in targets:
        there = (await known_topic(cluster, topic)).partitions
        if partition is None:
            found |= {(topic, index) for index in there}
        elif partition in there:
            found.add((topic, partition))
        else:
            raise Failed(no_partition(topic, len(there), partition))
    return sorted(found)


def _shifted(
    group: str, places: Sequence[Place], before: Mapping[Place, int], number: int
) -> dict[Place, int]:
    for topic, index in places:
        if (topic, index) not in before:
            raise Failed(f"group {group} has no committed offset of {topic}:{index} to count from")
    return {place: before[place] + number for place in places}


def _move(place: Place, before: int | None, wanted: int, start: int, end: int) -> Move:
    after = min(max(wanted, start), end)
    if after > wanted:
        note = f"{wanted} is before the first offset"
    else:
        note = f"{wanted} is after the end" if after < wanted else ""
    return Move(*place, before, after, note)


async def move(cluster: ClassicCluster, group: str, moves: Sequence[Move]) -> None:
    """Commit the offsets.

    Raises:
      ClassicError: not all offsets were committed, or the outcome is unknown.
    """
    offsets = [GroupOffset(each.topic, each.partition, each.after, _NO_EPOCH, "") for each in moves]
    await commit(cluster, group, offsets)
