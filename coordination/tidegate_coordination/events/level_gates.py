"""Which metadata.version the events of a proposal need, by their types and by their fields.

A field that was added later counts only if its value is not the default: with the default, the
event means the same to older releases.  Fields of structs inside an event (a run, a segment) are
found by their class.  An event without gates costs one look-up in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, get_origin, get_type_hints

import msgspec

from .cluster import Event
from .fields import structs_in

FieldLevels: TypeAlias = Mapping[tuple[type[msgspec.Struct], str], int]
_LevelOf: TypeAlias = Callable[[Any], int]


class LevelGates:
    """See the module's head.  first: the level of all other events. events, fields: the higher
    levels, by type, and by type and name.
    """

    def __init__(self, first: int, events: Mapping[type[Event], int], fields: FieldLevels) -> None:
        self._first: Final = first
        self._events: Final = events
        self._fields: Final = fields
        self._looks: Final[dict[type[Event], _LevelOf]] = {}

    def needed_for(self, events: Iterable[Event]) -> int:
        """Return the level that all these events need."""
        return max(map(self._of, events), default=self._first)

    def _of(self, event: Event) -> int:
        kind = type(event)
        look = self._looks.get(kind)
        if look is None:
            look = self._looks[kind] = self._look_at(kind, self._events.get(kind, self._first))
        return look(event)

    def _look_at(self, kind: type[msgspec.Struct], floor: int) -> _LevelOf:
        """Return a function that gives the level of a value of that class, at least `floor`."""
        looks = [*self._own_fields(kind), *self._inner_fields(kind)]
        if not looks:
            return lambda _: floor
        return lambda value: max(floor, *(look(value) for look in looks))

    def _own_fields(self, kind: type[msgspec.Struct]) -> Iterator[_LevelOf]:
        for each in msgspec.structs.fields(kind):
            level = self._fields.get((kind, each.name))
            if level is not None:
                made = each.default_factory
                default = each.default if made is msgspec.NODEFAULT else made()
                yield partial(_level_of_field, each.name, default, level, self._first)

    def _inner_fields(self, kind: type[msgspec.Struct]) -> Iterator[_LevelOf]:
        """Visit the fields that hold structs with a gated field."""
        for name, hint in get_type_hints(kind).items():
            for inner in structs_in(hint):
                if self._is_gated(inner):
                    look = self._look_at(inner, self._first)
                    level_of = _level_of_inners if get_origin(hint) is tuple else _level_of_inner
                    yield partial(level_of, name, inner, look, self._first)

    def _is_gated(self, kind: type[msgspec.Struct]) -> bool:
        if any(gated is kind for gated, _ in self._fields):
            return True
        inner = (each for hint in get_type_hints(kind).values() for each in structs_in(hint))
        return any(map(self._is_gated, inner))


def _level_of_field(name: str, default: object, level: int, first: int, value: Any) -> int:
    return first if getattr(value, name) == default else level


def _level_of_inner(
    name: str, kind: type[msgspec.Struct], look: _LevelOf, first: int, value: Any
) -> int:
    held = getattr(value, name)
    return look(held) if isinstance(held, kind) else first


def _level_of_inners(
    name: str, kind: type[msgspec.Struct], look: _LevelOf, first: int, value: Any
) -> int:
    inside: Iterable[Any] = getattr(value, name)
    return max((look(each) for each in inside if isinstance(each, kind)), default=first)
