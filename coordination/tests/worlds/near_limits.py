"""States whose numbers are moved up, as years of work would leave them."""

from __future__ import annotations

from typing import Any

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.frozen import piece, split


def moved_up(
    state: ClusterState,
    *,
    next_object: int = 0,
    counters: dict[int, int] | None = None,
    next_offsets: dict[int, int] | None = None,
    next_producer_id: int = 0,
    next_incarnation: int = 0,
    next_partition: int = 0,
) -> ClusterState:
    """Return the state with some of its numbers changed; an argument of 0 changes nothing.

    next_offsets: the end offsets of partitions, which must be empty. counters: the WAL counters of
    incarnations.
    """
    head, *tables = split(state.encode())
    objects, ids = head["objects"], head["producer_ids"]
    objects["next"] = next_object or objects["next"]
    ids["next"] = next_producer_id or ids["next"]
    head["gateways"]["next"] = next_incarnation or head["gateways"]["next"]
    head["next_partition"] = next_partition or head["next_partition"]
    objects["counters"] += [
        [incarnation, after, [], []] for incarnation, after in (counters or {}).items()
    ]
    for name, rows in tables:
        if name == "partitions":
            _move_up(rows, next_offsets or {})
    return ClusterState.decode(b"".join(map(piece, [head, *tables])))


def _move_up(rows: list[list[Any]], next_offsets: dict[int, int]) -> None:
    for row in rows:
        if row[0] in next_offsets:
            row[3] = row[4] = next_offsets[row[0]]
