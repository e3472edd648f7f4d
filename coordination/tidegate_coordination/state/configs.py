"""Dynamic configs of gateways, groups and client metrics; topics keep their own.  Only set values
are kept; defaults come from the tables of `configs`.  Resource types are Kafka's numbers.  A broker
resource is a node id, or "" for the default of all.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

from ..events.cluster import ConfigsSet
from .long_values import LongList, sorted_slices

_NOTHING_SET: Mapping[str, str] = MappingProxyType({})
_OfType = dict[str, dict[str, str]]


class ConfigTable:
    """Configs by resource type and resource name.  version: rises with every change, for caches."""

    def __init__(self) -> None:
        self._configs: dict[int, _OfType] = {}
        self.version = 0

    def get(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """Return the set values of a resource; empty if it has none."""
        return self._configs.get(resource_type, {}).get(resource_name, _NOTHING_SET)

    def names(self, resource_type: int) -> list[str]:
        """Return the resources of a type that have set values, sorted: a long step for many."""
        return sorted(self._configs.get(resource_type, ()))

    def first_names(self, resource_type: int, count: int) -> list[str]:
        """Return the first of them."""
        return heapq.nsmallest(count, self._configs.get(resource_type, ()))

    def copied_names(self, resource_type: int) -> list[str]:
        """Return those of now, in no order."""
        return list(self._configs.get(resource_type, ()))

    def fold_configs_set(self, event: ConfigsSet) -> None:
        """Replace all configs of a resource; a resource without any is forgotten."""
        of_type = self._configs.setdefault(event.resource_type, {})
        if event.configs:
            of_type[event.resource_name] = dict(event.configs)
        else:
            of_type.pop(event.resource_name, None)
        self.version += 1

    def encode(self) -> LongList:
        """Return the whole table; the configs of a resource are replaced, and never change."""
        copied = {kind: of_type.copy() for kind, of_type in sorted(self._configs.items())}
        slices = chain.from_iterable(_slices(*each) for each in copied.items())
        return LongList(sum(map(len, copied.values())), slices)

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        for kind, name, configs in rows:
            self._configs.setdefault(kind, {})[name] = dict(configs)


def _slices(kind: int, of_type: _OfType) -> Iterator[list[object]]:
    def row(name: str, configs: Mapping[str, str]) -> object:
        return [kind, name, dict(sorted(configs.items()))]

    return sorted_slices(of_type, row)
