"""Decisions that follow from answers of DynamoDB; pure.

The transaction that creates an entry also moves `end` by one. So its `next` alone says whether a
position is free, held, or beyond the end. A writer that was paused during a trim finds a `next`
above its position.
"""

from collections.abc import Sequence
from enum import Enum, auto

from tidegate_coordination.log.metadata_log import AppendResult, LogCorrupt
from tidegate_coordination.logs.dynamodb.layout import End, Head, Item, entry_position, head_of


class Trim(Enum):
    """How the boundary may rise to a position."""

    HOLDS = auto()  # the boundary is at the position, or beyond
    RAISE = auto()
    BEGIN = auto()  # the log never held an entry: it may begin anywhere
    REFUSE = auto()


def refused_append(position: int, end: End) -> AppendResult:
    """Return the outcome of an append by a writer that does not hold the position.

    Args:
        end: as the append met it.

    Raises:
        LogCorrupt: the entry before the position is missing, or the table was tampered with.
    """
    if position < end.boundary:
        return AppendResult.TRIMMED
    if position < end.next:
        return AppendResult.CONFLICT
    if position == end.next:
        raise LogCorrupt(f"entry {position} is in the table, though the log ends before it")
    raise too_far(position, end)


def too_far(position: int, end: End) -> LogCorrupt:
    return LogCorrupt(
        f"position {position} was requested, but the log in DynamoDB ends at {end.next - 1}"
    )


def how_to_trim(end: End, before_position: int) -> Trim:
    if before_position <= end.boundary:
        return Trim.HOLDS
    if before_position <= end.next:
        return Trim.RAISE
    return Trim.BEGIN if end.is_pristine else Trim.REFUSE


def first_heads(items: Sequence[Item], from_position: int, max_bytes: int) -> list[Head]:
    """Return the heads that answer a read: in order, without gaps, one even if it is too large."""
    heads: list[Head] = []
    for item in items:
        head = head_of(item)
        max_bytes -= head.size
        is_next = entry_position(item.name) == from_position + len(heads)
        if not is_next or (heads and max_bytes < 0):
            break
        heads.append(head)
    return heads
