"""The parts of an answer that depend on the client's rights: names, codes, and bit sets.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeAlias

Shown: TypeAlias = tuple[str, ...]
"""Lines, in an order of their own: brokers shuffle."""

_NAMES: Final = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "key",
    "resource_name",
    "feature",
    "topic_id",
)
_BITS: Final = (
    "topic_authorized_operations",
    "cluster_authorized_operations",
    "authorized_operations",
)
_NO_ID: Final = bytes(16)
# Lists whose rows depend on the broker.
_LEFT_OUT: Final = frozenset(
    {"brokers", "nodes", "configs", "active_producers", "current_voters", "observers", "members"}
)
_INTERNAL: Final = "__"


def shown(answer: Any, ids: Mapping[bytes, str]) -> Shown:
    """Return the lines of an answer.  ids: the broker's ids of topics, by name."""
    return tuple(sorted(_lines("", answer, ids)))


def _lines(path: str, value: Any, ids: Mapping[bytes, str]) -> Iterator[str]:
    own = " ".join(_own(value, ids))
    if _INTERNAL in own:
        return
    here = f"{path}/{own}"
    yield here
    for each in fields(value):
        if each.name in _LEFT_OUT:
            continue
        for row in _rows(getattr(value, each.name)):
            yield from _lines(f"{here}.{each.name}", row, ids)


def _rows(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return []
    return [row for row in value if is_dataclass(row)]


def _own(value: Any, ids: Mapping[bytes, str]) -> Iterator[str]:
    for each in fields(value):
        found = getattr(value, each.name)
        if each.name.endswith("error_code"):
            yield f"{each.name}={int(found)}"
        elif each.name in _BITS:
            yield f"{each.name}={found:#x}" if found >= 0 else f"{each.name}=none"
        elif each.name == "topic_id":
            yield f"id={ids.get(found, 'none' if found == _NO_ID else 'unknown')}"
        elif each.name in _NAMES:
            yield f"{each.name}={found}"
        elif each.name in ("num_partitions", "replication_factor"):
            yield f"{each.name}={'none' if found == -1 else 'shown'}"
