"""Values of a snapshot that are encoded in slices: one of them may have a million parts.

A slice is some milliseconds of work.  It reads copies, or rows that are kept before they change, so
the live state may change between two slices.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

Key = TypeVar("Key", bytes, int, str, tuple[int, str])

SLICE_ROWS: Final = 1_000
_encode = msgspec.msgpack.Encoder().encode
_SMALL, _MEDIUM = 1 << 4, 1 << 16
_ARRAY: Final = (0x90, 0xDC, 0xDD)
_MAP: Final = (0x80, 0xDE, 0xDF)


class LongList:
    """A list in an encoded value.

    count: of its rows.  slices: yields them in order, some at a time, or none after other work.
    """

    def __init__(self, count: int, slices: Iterable[Sequence[object]]) -> None:
        self._count = count
        self._slices = slices

    def parts(self) -> Iterator[bytes]:
        """Yield the encoded list; other tasks may run between two parts."""
        yield _header(_ARRAY, self._count)
        for rows in self._slices:
            yield b"".join(map(_encode, rows))


class LongValue:
    """An encoded array or map of which some fields are long.  Others are encoded at once."""

    def __init__(self, header: bytes, fields: Iterable[object]) -> None:
        self._fields: list[bytes | LongList] = [header]
        self._fields += [each if isinstance(each, LongList) else _encode(each) for each in fields]

    @classmethod
    def of_row(cls, fields: Sequence[object]) -> LongValue:
        """Return an array."""
        return cls(_header(_ARRAY, len(fields)), fields)

    @classmethod
    def of_map(cls, table: Mapping[str, object]) -> LongValue:
        """Return a map."""
        return cls(_header(_MAP, len(table)), (each for pair in table.items() for each in pair))

    def parts(self) -> Iterator[bytes]:
        """Yield the encoded value, once."""
        for each in self._fields:
            if isinstance(each, LongList):
                yield from each.parts()
            else:
                yield each


def sorted_slices(
    table: Mapping[Key, Any], row: Callable[[Key, Any], object]
) -> Iterator[list[object]]:
    """Yield the rows of a table by key; the table must not change.  Sorted in slices, too."""
    keys = iter(table)
    sorted_runs: list[list[Key]] = []
    while run := list(islice(keys, SLICE_ROWS)):
        run.sort()
        sorted_runs.append(run)
        yield []
    merged = heapq.merge(*sorted_runs)
    while rows := [row(key, table[key]) for key in islice(merged, SLICE_ROWS)]:
        yield rows


def array_header(count: int) -> bytes:
    """Return how an encoded array of so many values begins."""
    return _header(_ARRAY, count)


def _header(kind: tuple[int, int, int], count: int) -> bytes:
    """Return the shortest header, as the encoder writes it."""
    small, medium, large = kind
    if count < _SMALL:
        return bytes((small | count,))
    if count < _MEDIUM:
        return struct.pack(">BH", medium, count)
    return struct.pack(">BI", large, count)
