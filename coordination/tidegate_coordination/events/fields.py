"""Facts about the fields of events, in their annotations: `count: Annotated[int, Since(5)]`.

gates.py reads from them which level a value needs, state/columns.py which numbers may be
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from .metadata_versions import TENANTS

LAST_EPOCH: Final = 32_766
"""The highest epoch that a client's producer gets.  A marker may have one more."""


@dataclass(frozen=True, slots=True)
class Since:
    """A value other than the field's default needs this metadata.version.

    An older release would fold the event without the value, and so get another state.  So a rule
    checks the level before it proposes the value.
    """

    level: int


@dataclass(frozen=True, slots=True)
class Within:
    """The bounds of a number.  Without it, a number has 64 bits with a sign."""

    bounds: range


_Fact = TypeVar("_Fact", Since, Within)

Tenant: TypeAlias = Annotated[int, Since(TENANTS)]
"""The owner of a name that people choose; see cluster.py."""
UInt32: TypeAlias = Annotated[int, Within(range(1 << 32))]
Count: TypeAlias = Annotated[int, Within(range(1, (1 << 32) - 1))]
ClientProducerId: TypeAlias = Annotated[int, Within(range(1 << 63))]
ClientEpoch: TypeAlias = Annotated[int, Within(range(LAST_EPOCH + 1))]
"""The epochs of producers; Kafka reserves the last one, 32767, for markers."""


def facts_of(kind: type[msgspec.Struct], fact: type[_Fact]) -> Iterator[tuple[str, _Fact]]:
    """Yield the fields that have a fact of that class: each name, with the fact."""
    hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
    for name, hint in hints.items():
        if get_origin(hint) is Annotated:
            yield from ((name, each) for each in hint.__metadata__ if isinstance(each, fact))


def structs_of(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Yield a class, and the classes of all values that it may hold."""
    yield kind
    for hint in get_type_hints(kind).values():
        for inner in structs_in(hint):
            yield from structs_of(inner)


def structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the classes of structs that a field of this type may hold, alone or in a tuple."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for each in get_args(hint):
        yield from structs_in(each)
