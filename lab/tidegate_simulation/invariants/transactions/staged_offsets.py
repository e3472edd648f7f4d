"""A model of committed offsets, and of those that open transactions have staged: invariant 13.

Each write has a place in the order of the log.  If its transaction commits, a staged offset becomes
visible, unless the group's offset was written at a later place than the staged one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from tidegate_coordination.events.groups import CommittedOffset

OffsetKey: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""


class Placed(NamedTuple):
    """An offset, and its place in the order of writes."""

    offset: int
    place: int


class StagedOffsets:
    """The model of committed and staged offsets."""

    def __init__(self) -> None:
        self._places = 0
        self.committed: dict[str, dict[OffsetKey, Placed]] = {}
        self._staged: dict[str, dict[str, dict[OffsetKey, Placed]]] = {}  # by id, by group

    def _next(self) -> int:
        self._places += 1
        return self._places

    def commit(self, group_id: str, offsets: Iterable[CommittedOffset]) -> None:
        """Take a plain commit."""
        place, rows = self._next(), self.committed.setdefault(group_id, {})
        rows |= {(each.topic_id, each.partition): Placed(each.offset, place) for each in offsets}

    def stage(self, name: str, group_id: str, offsets: Iterable[CommittedOffset]) -> None:
        """Take a commit that is part of a transaction."""
        place, groups = self._next(), self._staged.setdefault(name, {})
        rows = groups.setdefault(group_id, {})
        rows |= {(each.topic_id, each.partition): Placed(each.offset, place) for each in offsets}

    def end(self, name: str, *, committed: bool) -> set[str]:
        """End a transaction; return the groups that it had."""
        groups = self._staged.pop(name, {})
        for group_id, rows in groups.items() if committed else ():
            visible = self.committed.setdefault(group_id, {})
            for key, placed in rows.items():
                if key not in visible or visible[key].place < placed.place:
                    visible[key] = placed
        return set(groups)

    def delete(self, group_id: str, keys: Iterable[OffsetKey] | None = None) -> None:
        """Forget offsets of a group, staged ones too; None for all."""
        of_group = [groups[group_id] for groups in self._staged.values() if group_id in groups]
        for rows in (self.committed.get(group_id, {}), *of_group):
            for key in list(rows) if keys is None else keys:
                rows.pop(key, None)

    def delete_topic(self, topic_id: bytes) -> set[str]:
        """Forget offsets of a topic; return the groups that had some."""
        had: set[str] = set()
        staged = [each for groups in self._staged.values() for each in groups.items()]
        for group_id, rows in (*self.committed.items(), *staged):
            for key in [each for each in rows if each[0] == topic_id]:
                had.add(group_id)
                del rows[key]
        return had

    def pending(self, group_id: str) -> set[OffsetKey]:
        """Return the partitions with staged offsets of a group."""
        return {key for groups in self._staged.values() for key in groups.get(group_id, {})}

    def staging(self) -> set[str]:
        """Return the groups with staged offsets."""
        return {group_id for groups in self._staged.values() for group_id in groups}
