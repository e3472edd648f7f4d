"""Groups wanted runs so that one GET reads a group.  Pure.

Requests cost money and time, but the bytes between runs cost little.  So one GET reads wanted runs
and chunks of one object that lie close to each other, within MAX_GAP_BYTES and MAX_GROUP_BYTES.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow

from .fetch_plan import Miss
from .segment_rows import is_segment

MAX_GAP_BYTES = 512 << 10
MAX_GROUP_BYTES = 8 << 20
# The GET of the index reads a segment of at most this size whole.  A larger segment would bring
# unwanted records, and the limits of a fetch and of memory count only the index.
MAX_WHOLE_BYTES = 1 << 20

Group: TypeAlias = list[tuple[Partition, RunRow]]


def end_of(row: RunRow) -> int:
    """Return the position after a run in its object."""
    return row.position + row.length


def groups_of(misses: Sequence[Miss], is_near_by: Callable[[RunRow], bool]) -> list[Group]:
    """Return groups of runs, a GET for each group.

    is_near_by: whether a run needs no GET.  Such runs, and the indexes of segments, are alone in
    their groups.
    """
    wanted = [(miss.partition, row) for miss in misses for row in miss.rows]
    wanted.sort(key=lambda each: (each[1].object_number, each[1].position))
    groups: list[Group] = []
    may_follow = False
    for each in wanted:
        is_alone = is_segment(each[1]) or is_near_by(each[1])
        if may_follow and not is_alone and _is_close(groups[-1], each[1]):
            groups[-1].append(each)
        else:
            groups.append([each])
        may_follow = not is_alone
    return groups


def _is_close(group: Group, row: RunRow) -> bool:
    first, last = group[0][1], group[-1][1]
    return (
        last.object_number == row.object_number
        and row.position - end_of(last) <= MAX_GAP_BYTES
        and end_of(row) - first.position <= MAX_GROUP_BYTES
    )
