"""Facts by position of the log, to judge the answers of gateways.

A gateway answers from a state that it held between the request and the answer.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Past(Generic[_Key, _Value]):
    """The values of each key, by the position from which they hold.  first: before any."""

    def __init__(self, first: _Value) -> None:
        self._first = first
        self._positions: dict[_Key, list[int]] = {}
        self._values: dict[_Key, list[_Value]] = {}

    def note(self, key: _Key, position: int, value: _Value) -> None:
        """Note the value that a key has from a position on."""
        values = self._values.setdefault(key, [])
        if (values[-1] if values else self._first) != value:
            self._positions.setdefault(key, []).append(position)
            values.append(value)

    def between(self, key: _Key, first: int, last: int) -> list[_Value]:
        """Return the values that a key had at the positions from first to last."""
        positions = self._positions.get(key, [])
        start, stop = bisect_right(positions, first), bisect_right(positions, last)
        values = self._values.get(key, [])
        return [values[start - 1] if start else self._first, *values[start:stop]]

    def keys(self) -> list[_Key]:
        """Return all keys that ever had a value of their own."""
        return list(self._values)
