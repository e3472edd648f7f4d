"""The last log position that changed a topic or a config, by name.

A request that names a topic or a resource is decided only if the name has not changed since it was
looked up (decision 22).  Only the deciding gateway reads this table, and no fold does, so replicas
need not agree on it and no snapshot holds it.  Changes before a snapshot count as made at the
snapshot, and dropped changes as made at the last dropped one.  If that refuses a request, it is
looked up and proposed again.

Long names are kept as digests: a group's may take 32 kB, and all 20,000 together 640 MB.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from typing import Final

TOPIC_RESOURCE: Final = 2
MAX_NAMES: Final = 20_000
KEPT_CHARACTERS: Final = 64


class NameChanges:
    """Positions by (resource type, name); Kafka's numbers of resource types."""

    def __init__(self, max_names: int = MAX_NAMES) -> None:
        self._max_names = max_names
        self._positions: OrderedDict[tuple[int, str | bytes], int] = OrderedDict()
        self._all_until = 0

    def begin_at(self, position: int) -> None:
        """Count every name as changed at the position of a snapshot."""
        self._all_until = position

    def note(self, resource_type: int, name: str, position: int) -> None:
        """Note a change; positions rise."""
        key = _key(resource_type, name)
        self._positions[key] = position
        self._positions.move_to_end(key)
        if len(self._positions) > self._max_names:
            _, self._all_until = self._positions.popitem(last=False)

    def is_since(self, resource_type: int, name: str, position: int) -> bool:
        """Return whether the name was or may have been changed after a position; never after 0."""
        last = self._positions.get(_key(resource_type, name), self._all_until)
        return bool(position) and last > position

    def is_topic_since(self, name: str, position: int) -> bool:
        """Return whether a topic was, or may have been, changed; see is_since().

        The changes are its creation, growth, settings, deletion, switch and return.
        """
        return self.is_since(TOPIC_RESOURCE, name, position)


def _key(resource_type: int, name: str) -> tuple[int, str | bytes]:
    if len(name) <= KEPT_CHARACTERS:
        return resource_type, name
    return resource_type, sha256(name.encode()).digest()
