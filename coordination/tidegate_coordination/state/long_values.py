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

Key = TypeVar("Key", bytes, int, str)

SLICE_ROWS: Final = 1_000
_encode = msgspec.msgpack.Encoder().encode
_SMALL, _MEDIUM = 1 << 4, 1 << 16
_ARRAY: Final = (0x90, 0xDC, 0xDD)
_MAP: Final = (0x80, 0xDE, 0xDF)


class LongList:
    """A list in an encoded value.

    count: the number of its rows.  slices: yields them in order, some at a time, or none after
    other work.
    """

    def __init__(self, count: int, slices: Iterable[Sequence[object]]) -> None:
        self._count = count
        self._slices = slices

    def parts(self) -> Iterator[bytes]:
        """Yield the encoded list; other tasks may run between two parts."""
        yield _header(_ARRAY, self._count)
        for rows in self._slices:
            yield b"".join(map(_encode, rows))


class LongBytes:
    """Bytes in an encoded value.  size: their number.  pieces: yields them, some at a time."""

    def __init__(self, size: int, pieces: Iterable[bytes]) -> None:
        self._size = size
        self._pieces = pieces

    def parts(self) -> Iterator[bytes]:
        """Yield the encoded bytes; other tasks may run between two parts."""
        yield _bytes_header(self._size)
        yield from self._pieces


class LongValue:
    """An encoded array or map with some long fields.  All other fields are encoded at once."""

    def __init__(self, header: bytes, fields: Iterable[object]) -> None:
        self._fields: list[bytes | LongList | LongBytes | LongValue] = [header]
        self._fields += [each if isinstance(each, _LONG) else _encode(each) for each in fields]

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
            if isinstance(each, bytes):
                yield each
            else:
                yield from each.parts()


_LONG: Final = (LongList, LongBytes, LongValue)


def sorted_keys(keys: Iterable[Key]) -> Iterator[list[Key]]:
    """Yield keys in order, some at a time; at an empty list other tasks may run.

    The keys must not change.  A list is emptied, so that no second list of a million keys exists,
    through which Python's garbage collector would walk.
    """
    falling_runs: list[list[Key]] = []
    for run in _emptied_runs(keys) if isinstance(keys, list) else _runs(keys):
        run.sort(reverse=True)
        falling_runs.append(run)
        yield []
    merged = heapq.merge(*map(_emptied, falling_runs))
    while some := list(islice(merged, SLICE_ROWS)):
        yield some


def _runs(keys: Iterable[Key]) -> Iterator[list[Key]]:
    left = iter(keys)
    while run := list(islice(left, SLICE_ROWS)):
        yield run


def _emptied_runs(keys: list[Key]) -> Iterator[list[Key]]:
    while keys:
        yield keys[-SLICE_ROWS:]
        del keys[-SLICE_ROWS:]


def _emptied(falling: list[Key]) -> Iterator[Key]:
    """Yield from the end.  To free a million keys at once would take as long as to copy them."""
    while falling:
        yield falling.pop()


def sorted_slices(
    copied: dict[Key, Any], row: Callable[[Key, Any], object]
) -> Iterator[list[object]]:
    """Yield the rows of a table by key, and remove them from the table.

    They are sorted in slices, too.
    """
    for keys in sorted_keys(copied):
        yield [row(key, copied.pop(key)) for key in keys]


def array_header(count: int) -> bytes:
    """Return the header of an encoded array of this many values."""
    return _header(_ARRAY, count)


def _bytes_header(size: int) -> bytes:
    """Return the header of encoded bytes."""
    if size < 1 << 8:
        return struct.pack(">BB", 0xC4, size)
    if size < _MEDIUM:
        return struct.pack(">BH", 0xC5, size)
    return struct.pack(">BI", 0xC6, size)


def _header(kind: tuple[int, int, int], count: int) -> bytes:
    """Return the shortest header, as the encoder writes it."""
    small, medium, large = kind
    if count < _SMALL:
        return bytes((small | count,))
    if count < _MEDIUM:
        return struct.pack(">BH", medium, count)
    return struct.pack(">BI", large, count)
