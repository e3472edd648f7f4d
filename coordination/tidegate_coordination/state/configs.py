"""Dynamic configs of gateways, groups and client metrics; topics keep their own.

Only set values are kept; defaults are in the tables of `configs`. Resource types are Kafka's
numbers. A broker resource is a node id, or "" for the default of all.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from ..events.cluster import ConfigsSet
from .long_values import LongList, sorted_slices

_NOTHING_SET: Mapping[str, str] = MappingProxyType({})
FIRST_NAMES: Final = 500


class _OfType:
    """Configs by resource name.

    first: the first names in order, for callers that need no more, because sorting all names takes
    long.  It has at least FIRST_NAMES names, or all, and at most twice as many, so that few
    removals make it necessary to fill it again.
    """

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.first: list[str] = []

    def set(self, name: str, configs: dict[str, str]) -> None:
        """Set the configs of a resource."""
        is_among_first = len(self.first) == len(self.configs) or name < self.first[-1]
        if is_among_first and name not in self.configs:
            insort(self.first, name)
            del self.first[2 * FIRST_NAMES :]
        self.configs[name] = configs

    def remove(self, name: str) -> None:
        """Forget a resource, if it is known."""
        if self.configs.pop(name, None) is None or name not in self.first:
            return
        self.first.remove(name)
        if len(self.first) < min(FIRST_NAMES, len(self.configs)):
            self.first = nsmallest(2 * FIRST_NAMES, self.configs)


class ConfigTable:
    """Configs by resource type and resource name.  version: rises with every change, for caches."""

    def __init__(self) -> None:
        self._of_types: defaultdict[int, _OfType] = defaultdict(_OfType)
        self.version = 0

    def get(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """Return the set values of a resource; empty if it has none."""
        return self._of_types[resource_type].configs.get(resource_name, _NOTHING_SET)

    def names(self, resource_type: int) -> list[str]:
        """Return the resources of a type that have set values, sorted; slow if there are many."""
        return sorted(self._of_types[resource_type].configs)

    def first_names(self, resource_type: int) -> list[str]:
        """Return the first FIRST_NAMES resources of a type that have set values, sorted."""
        return self._of_types[resource_type].first[:FIRST_NAMES]

    def copied_names(self, resource_type: int) -> list[str]:
        """Return the present names, in no order."""
        return list(self._of_types[resource_type].configs)

    def fold_configs_set(self, event: ConfigsSet) -> None:
        """Replace all configs of a resource; a resource without any is forgotten."""
        of_type = self._of_types[event.resource_type]
        if event.configs:
            of_type.set(event.resource_name, dict(event.configs))
        else:
            of_type.remove(event.resource_name)
        self.version += 1

    def encode(self) -> LongList:
        """Return the whole table; it stays valid, as changes replace a resource's configs."""
        copied = {kind: each.configs.copy() for kind, each in sorted(self._of_types.items())}
        slices = chain.from_iterable(_slices(*each) for each in copied.items())
        return LongList(sum(map(len, copied.values())), slices)

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        for kind, name, configs in rows:
            self._of_types[kind].set(name, dict(configs))


def _slices(kind: int, copied: dict[str, dict[str, str]]) -> Iterator[list[object]]:
    def row(name: str, configs: Mapping[str, str]) -> object:
        return [kind, name, dict(sorted(configs.items()))]

    return sorted_slices(copied, row)
