"""The bounds of numbers: in the columns of the state, in a snapshot, and on Kafka's wire.

The fields of an event are checked against these before it is written (entry_trial.py), so that a
replica can hold every number in the log, and send it to a client.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from ..events.fields import Within, facts_of
from .broken import StateBroken

MAX_INT64: Final = (1 << 63) - 1
MAX_UINT32: Final = (1 << 32) - 1
# The bound of object numbers (runs.py); older releases have MAX_UINT32.
MAX_OBJECTS: Final = 1 << 40
# The bounds of position, length, max time stamp, check and flags of a run; see runs.py.
check_run_columns: Final = struct.Struct("<IIqIB").pack
# The bounds of producer id, epoch, first and last sequence, base offset.
check_producer_columns: Final = struct.Struct("<qhiiq").pack

# A signed integer of up to 8 bytes, as in Kafka; msgpack would accept larger ones.
_INT64: Final = range(-MAX_INT64 - 1, MAX_INT64 + 1)


def check_numbers(value: msgspec.Struct) -> None:
    """Check that all numbers of an event, and of the values in it, fit their columns.

    Raises:
      StateBroken: the text names the field.
    """
    for check in _checks_of(type(value)):
        check(value)


@cache
def _checks_of(kind: type[msgspec.Struct]) -> tuple[Callable[[Any], None], ...]:
    narrow = {name: within.bounds for name, within in facts_of(kind, Within)}
    return tuple(
        check
        for name, hint in get_type_hints(kind).items()
        for check in _field(kind, name, hint, narrow.get(name, _INT64))
    )


def _field(
    kind: type[msgspec.Struct], name: str, hint: Any, bounds: range
) -> Iterator[Callable[[Any], None]]:
    if hint is int:
        yield lambda value: _check_number(kind, name, bounds, getattr(value, name))
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield lambda value: check_numbers(getattr(value, name))
    elif get_origin(hint) is tuple:
        yield from _items(kind, name, get_args(hint))


def _items(
    kind: type[msgspec.Struct], name: str, inner: tuple[Any, ...]
) -> Iterator[Callable[[Any], None]]:
    """Go into a field that is a tuple of numbers, of pairs with numbers, or of structs."""
    what = inner[0]
    if what is int:
        yield lambda value: _check_all(kind, name, getattr(value, name))
    elif get_origin(what) is tuple and int in get_args(what):
        at = [place for place, each in enumerate(get_args(what)) if each is int]
        yield lambda value: _check_all(
            kind, name, (item[place] for item in getattr(value, name) for place in at)
        )
    elif isinstance(what, type) and issubclass(what, msgspec.Struct):
        yield lambda value: _check_structs(getattr(value, name))


def _check_structs(values: Any) -> None:
    for each in values:
        check_numbers(each)


def _check_all(kind: type[msgspec.Struct], name: str, numbers: Any) -> None:
    for each in numbers:
        _check_number(kind, name, _INT64, each)


def _check_number(kind: type[msgspec.Struct], name: str, bounds: range, number: object) -> None:
    # A bool is a number in Python, but not in the encoded entry.
    if type(number) is not int or number not in bounds:
        raise StateBroken(
            f"{kind.__name__}.{name} is {number!r}, and must be {bounds.start} to {bounds.stop - 1}"
        )
