"""Dynamic configs of gateways, groups and client metrics; topics keep their own.  Only set values
are kept; defaults come from the tables of `configs`.  Resource types are Kafka's numbers.  A broker
resource is a node id, or "" for the default of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ..events.cluster import ConfigsSet
from .long_values import LongList, sorted_slices

_NOTHING_SET: Mapping[str, str] = MappingProxyType({})


def _row(key: tuple[int, str], configs: Mapping[str, str]) -> list[object]:
    return [*key, dict(sorted(configs.items()))]


class ConfigTable:
    """Configs by (resource type, resource name).  version: rises with every change, for caches."""

    def __init__(self) -> None:
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self.version = 0

    def get(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """Return the set values of a resource; empty if it has none."""
        return self._configs.get((resource_type, resource_name), _NOTHING_SET)

    def names(self, resource_type: int) -> list[str]:
        """Return the resources of a type that have set values, sorted."""
        return sorted(name for kind, name in self._configs if kind == resource_type)

    def fold_configs_set(self, event: ConfigsSet) -> None:
        """Replace all configs of a resource; a resource without any is forgotten."""
        key = (event.resource_type, event.resource_name)
        if event.configs:
            self._configs[key] = dict(event.configs)
        else:
            self._configs.pop(key, None)
        self.version += 1

    def encode(self) -> LongList:
        """Return the whole table; the configs of a resource are replaced, and never change."""
        configs = self._configs.copy()
        return LongList(len(configs), sorted_slices(configs, _row))

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self._configs = {(kind, name): dict(configs) for kind, name, configs in rows}
