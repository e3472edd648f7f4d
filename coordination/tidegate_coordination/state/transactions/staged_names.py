"""The transactional ids that have staged offsets, by group and partition (KIP-447).

Many producers of one application commit offsets of one group, each for its own partitions.  So the
end of one transaction must not take a walk over all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .open import OffsetKey


class StagedNames:
    """See the module's head.  The table is derived from the open transactions."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[OffsetKey, set[str]]] = {}
        # Made when a topic is deleted, and kept for the next one: one entry may delete many. A
        # group stays in this table after its last staged offset was removed.
        self._groups_of: dict[bytes, dict[str, None]] | None = None

    def add(self, group_id: str, keys: Iterable[OffsetKey], name: str) -> None:
        """Note an id that has staged offsets of these partitions."""
        by_key = self._by_group.setdefault(group_id, {})
        self._groups_of = None
        for key in keys:
            by_key.setdefault(key, set()).add(name)
        if not by_key:
            del self._by_group[group_id]

    def remove(self, group_id: str, keys: Iterable[OffsetKey], name: str) -> None:
        """Note that an id has staged no offsets of these partitions any more."""
        by_key = self._by_group.get(group_id, {})
        for key in keys:
            names = by_key.get(key, set())
            names.discard(name)
            if not names:
                by_key.pop(key, None)
        if not by_key:
            self._by_group.pop(group_id, None)

    def has_group(self, group_id: str) -> bool:
        """Return whether any id has staged offsets of a group."""
        return group_id in self._by_group

    def has(self, group_id: str, key: OffsetKey) -> bool:
        """Return whether any id has staged an offset of a partition."""
        return key in self._by_group.get(group_id, ())

    def of(self, group_id: str, keys: Iterable[OffsetKey]) -> set[str]:
        """Return the ids with staged offsets of some of these partitions."""
        by_key = self._by_group.get(group_id)
        return set[str]().union(*(by_key.get(key, ()) for key in keys)) if by_key else set()

    def keys(self, group_id: str) -> list[OffsetKey]:
        """Return the partitions with staged offsets of a group."""
        return list(self._by_group.get(group_id, ()))

    def of_topic(self, topic_id: bytes) -> Iterator[tuple[str, list[OffsetKey]]]:
        """Yield the partitions of a topic with staged offsets, by group."""
        if self._groups_of is None:
            self._groups_of = self._by_topic()
        for group_id in self._groups_of.get(topic_id, ()):
            keys = [key for key in self._by_group.get(group_id, ()) if key[0] == topic_id]
            if keys:
                yield group_id, keys

    def _by_topic(self) -> dict[bytes, dict[str, None]]:
        groups_of: dict[bytes, dict[str, None]] = {}
        for group_id, by_key in self._by_group.items():
            for topic_id in {key[0]: None for key in by_key}:
                groups_of.setdefault(topic_id, {})[group_id] = None
        return groups_of
