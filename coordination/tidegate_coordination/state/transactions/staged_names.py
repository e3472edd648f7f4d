"""The transactional ids that have staged offsets, by group and partition (KIP-447).

Many producers of one application commit offsets of one group, each of its own partitions.  So the
end of one must not look at the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .open import OffsetKey


class StagedNames:
    """See the module's head.  It is derived from the open transactions."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[OffsetKey, set[str]]] = {}

    def add(self, group_id: str, keys: Iterable[OffsetKey], name: str) -> None:
        """Note an id that has staged offsets of these partitions."""
        by_key = self._by_group.setdefault(group_id, {})
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
        for group_id, by_key in list(self._by_group.items()):
            keys = [key for key in by_key if key[0] == topic_id]
            if keys:
                yield group_id, keys
