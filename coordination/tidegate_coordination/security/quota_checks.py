"""The checks of AlterClientQuotas and DescribeClientQuotas, with Kafka's texts (KIP-546).

Differs from Kafka: the name of an ip entity is an address, never a host name, so no check asks the
DNS; a value that is no number is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import isnan
from typing import Final

from .quotas import (
    DEFAULT,
    OF_ADDRESSES,
    OF_CLIENTS,
    EntityType,
    QuotaChange,
    QuotaEntity,
    QuotaKey,
    normal_address,
)

_LARGEST: Final[Mapping[str, tuple[str, float]]] = {
    QuotaKey.PRODUCE: ("a LONG", float(2**63 - 1)),
    QuotaKey.FETCH: ("a LONG", float(2**63 - 1)),
    QuotaKey.CONNECTION: ("an INT", float(2**31 - 1)),
}
"""The quotas that are whole numbers: the type that Kafka's text names, and its largest value."""
_FRACTION: Final = 1e-6
_TYPES: Final = frozenset(EntityType)
NO_NAME: Final = "\ud800"
"""A name that no entity has: DEFAULT stands for the default, and "" on the wire for nothing."""


class QuotaRefused(Exception):
    """The request is wrong.  The text says why.  is_unknown_type: it names a type of entity that
    the gateway does not know.
    """

    def __init__(self, text: str, *, is_unknown_type: bool = False) -> None:
        super().__init__(text)
        self.is_unknown_type = is_unknown_type


def entity_of(named: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity that a request describes by types and names; None for the default.

    If a type occurs twice, the last name counts, as in Kafka.

    Raises:
      QuotaRefused: there can be no such entity.
    """
    names = dict(named)
    if not names:
        raise QuotaRefused("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in _TYPES:
            raise QuotaRefused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise QuotaRefused(f"Empty {kind} not supported")
    user, client_id, ip = (_part(names, kind) for kind in EntityType)
    if ip is not None and (user is not None or client_id is not None):
        raise QuotaRefused(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or"
            " ClientId"
        )
    if ip and normal_address(ip) is None:
        raise QuotaRefused(f"{ip} is not a valid IP or resolvable host.")
    return QuotaEntity(user, client_id, ip)


def _part(names: Mapping[str, str | None], kind: EntityType) -> str | None:
    if kind not in names:
        return None
    name = names[kind]
    return DEFAULT if name is None else name


def check_value(entity: QuotaEntity, key: str, value: float) -> None:
    """Check a quota that is to be set.

    Raises:
      QuotaRefused: the entity cannot have it.
    """
    if key not in (OF_CLIENTS if entity.ip is None else OF_ADDRESSES):
        raise QuotaRefused(f"Invalid configuration key {key}")
    if isnan(value) or value <= 0:
        raise QuotaRefused(f"Quota {key} must be greater than 0")
    if key not in _LARGEST:
        return
    kind, largest = _LARGEST[key]
    if value > largest:
        raise QuotaRefused(f"Proposed value for {key} is too large for {kind}.")
    if value % 1 > _FRACTION:
        raise QuotaRefused(f"{key} cannot be a fractional value.")


class MatchType(IntEnum):
    """How a part of a filter matches, as on the wire."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """Which entities are described.

    names: the parts with a certain name, or the default.  types: parts with any name.
    is_strict: an entity may have no other parts.
    """

    names: Mapping[EntityType, str]
    types: frozenset[EntityType]
    is_strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Return whether the filter matches an entity."""
        parts = dict(entity.parts())
        if self.is_strict and len(parts) != len(self.names) + len(self.types):
            return False
        if any(parts.get(kind) != name for kind, name in self.names.items()):
            return False
        return self.types <= parts.keys()


def filter_of(
    components: Sequence[tuple[str, int, str | None]], *, is_strict: bool
) -> EntityFilter:
    """Return the filter of a request.  components: type of entity, MatchType, name.

    Raises:
      QuotaRefused: there can be no such filter.
    """
    names: dict[EntityType, str] = {}
    types: set[EntityType] = set()
    for text, match_type, name in components:
        if not text:
            raise QuotaRefused("Invalid empty entity type.")
        if text in names or text in types:
            raise QuotaRefused(f"Entity type {text} cannot appear more than once in the filter.")
        if text not in _TYPES:
            raise QuotaRefused(f"Unsupported entity type {text}", is_unknown_type=True)
        kind = EntityType(text)
        if match_type == MatchType.SPECIFIED:
            _expect_no_name(match_type, name)
            types.add(kind)
        else:
            names[kind] = _wanted_name(match_type, name)
    used = types | names.keys()
    if EntityType.IP in used and len(used) > 1:
        raise QuotaRefused(
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component."
        )
    return EntityFilter(names, frozenset(types), is_strict)


def _wanted_name(match_type: int, name: str | None) -> str:
    if match_type == MatchType.EXACT:
        if name is None:
            raise QuotaRefused("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return name or NO_NAME
    if match_type == MatchType.DEFAULT:
        _expect_no_name(match_type, name)
        return DEFAULT
    raise QuotaRefused(f"Unknown match type {match_type}")


def _expect_no_name(match_type: int, name: str | None) -> None:
    if name is not None:
        raise QuotaRefused(
            f"Request specified MATCH_TYPE_{MatchType(match_type).name}, but also specified a match"
            " string."
        )


def is_possible(change: QuotaChange) -> bool:
    """Return whether a change passed the checks, as far as it can be seen from it."""
    entity = change.entity
    try:
        checked = entity_of((kind, name or None) for kind, name in entity.parts())
        if change.value is not None:
            check_value(entity, change.key, change.value)
    except QuotaRefused:
        return False
    return checked == entity
