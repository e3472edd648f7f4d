"""The state as of one moment, encoded piece by piece while the live one changes.

A row that is about to change is encoded first, and kept.  So a snapshot of a million slices costs
the event loop some milliseconds at a time.  It needs no copy of the state.  It needs no thread
either, which would make simulated runs differ.

Layout of an encoded state: pieces, each its length (u32, big-endian) and a msgpack value.  The
first is the head, a map; the others are [name of the table, rows].  The ends of pieces depend only
on their content, so equal states give equal bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import msgspec

from .broken import expect
from .long_values import LongValue, array_header

Key = TypeVar("Key", bound=Hashable)

MAX_PIECE_ROWS: Final = 256
MAX_PIECE_BYTES: Final = 256 << 10  # except a single larger row
_LENGTH: Final = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode


class FrozenRows(Generic[Key]):
    """The rows of one table.

    slices: the keys at the moment of the freeze, some at a time, whenever they are asked for.  An
      empty slice is a moment at which other tasks may run, as in sorted_keys().
    encode: returns the live row of a key as builtins; a LongValue is encoded in slices.
    was_here: returns whether a key, which is about to change, has a row and may be one of the
      frozen keys.
    is_rising: the keys rise, so a row that was encoded already is not kept when it changes.
    Otherwise such a row is kept in vain, so rows must be small.
    """

    def __init__(
        self,
        name: str,
        slices: Iterable[Iterable[Key]],
        encode: Callable[[Key], object | LongValue],
        *,
        was_here: Callable[[Key], bool],
        is_rising: bool = False,
    ) -> None:
        self._name = name
        self._slices = slices
        self._live_row = encode
        self._was_here = was_here
        self._is_rising = is_rising
        self._last: Any = None
        self._kept: dict[Key, bytes | LongValue] = {}

    def keep(self, keys: Iterable[Key]) -> None:
        """Take these rows as they are: they are about to change."""
        for key in keys:
            if key not in self._kept and self._is_left(key):
                self._kept[key] = self._row(key)

    def _is_left(self, key: Key) -> bool:
        is_taken = self._is_rising and self._last is not None and key <= self._last
        return not is_taken and self._was_here(key)

    def pieces(self) -> Iterator[bytes]:
        """Yield all rows; the state may change between two pieces.  Some are empty: they are only
        moments at which other tasks may run.
        """
        rows: list[msgspec.Raw] = []
        size_bytes = 0
        for row in self._rows():
            if row is None:
                yield b""
                continue
            if isinstance(row, LongValue):
                head = [b"\x92", _encode(self._name), array_header(len(rows) + 1), *rows]
                yield from _long_piece(chain(head, row.parts()))
                rows, size_bytes = [], 0
                continue
            rows.append(msgspec.Raw(row))
            size_bytes += len(row)
            if len(rows) >= MAX_PIECE_ROWS or size_bytes >= MAX_PIECE_BYTES:
                yield piece([self._name, rows])
                rows, size_bytes = [], 0
        if rows:
            yield piece([self._name, rows])

    def _rows(self) -> Iterator[bytes | LongValue | None]:
        """Yield all rows, and None after each slice."""
        for keys in self._slices:
            for key in keys:
                yield self._take(key)
            yield None

    def _take(self, key: Key) -> bytes | LongValue:
        self._last = key
        kept = self._kept.pop(key, None)
        return kept if kept is not None else self._row(key)

    def _row(self, key: Key) -> bytes | LongValue:
        row = self._live_row(key)
        return row if isinstance(row, LongValue) else _encode(row)


def frozen_values(name: str, slices: Iterable[Iterable[Key]]) -> FrozenRows[Key]:
    """Return the rows of a table whose rows never change, but are replaced.

    slices: of a copy.
    """
    return FrozenRows(name, slices, _itself, was_here=_never)


def _itself(value: object) -> object:
    return value


def _never(_: object) -> bool:
    """Return False: no row has to be kept before a change, because the copied list holds it."""
    return False


class FrozenState:
    """The result of ClusterState.frozen(); `position`: of the last entry that it includes.

    others: tables whose frozen rows do not change with the live ones.
    """

    def __init__(
        self,
        position: int,
        head: LongValue,
        partitions: FrozenRows[int],
        groups: FrozenRows[str],
        transactions: FrozenRows[str],
        *others: FrozenRows[Any],
    ) -> None:
        self.position = position
        self.partitions = partitions
        self.groups = groups
        self.transactions = transactions
        self._others = others
        self._head = head

    def pieces(self) -> Iterator[bytes]:
        """Yield the encoded state, once; some milliseconds of work a piece."""
        yield from _long_piece(self._head.parts())
        yield from self.partitions.pieces()
        yield from self.groups.pieces()
        yield from self.transactions.pieces()
        for each in self._others:
            yield from each.pieces()


def piece(value: object) -> bytes:
    """Encode one piece."""
    body = _encode(value)
    return _LENGTH.pack(len(body)) + body


def _long_piece(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield an encoded piece; its first part comes once the length of the piece is known."""
    body: list[bytes] = []
    for part in parts:
        body.append(part)
        yield b""
    yield _LENGTH.pack(sum(map(len, body)))
    yield from body


def split(data: bytes) -> Iterator[Any]:
    """Yield the values of all pieces.

    Raises:
      StateBroken: the data ends in the middle of a piece.
    """
    view = memoryview(data)
    at = 0
    while at < len(view):
        expect(at + _LENGTH.size <= len(view), "a snapshot that is cut short")
        (length,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        expect(at + length <= len(view), "a snapshot that is cut short")
        yield msgspec.msgpack.decode(view[at : at + length])
        at += length


def first_piece(chunks: Iterable[bytes]) -> bytes:
    """Return the encoded value of the first piece, from an encoded state in chunks.

    Raises:
      StateBroken: the data ends before.
    """
    data = bytearray()
    wanted = _LENGTH.size
    for chunk in chunks:
        data += chunk
        if len(data) >= _LENGTH.size:
            wanted = _LENGTH.size + int(_LENGTH.unpack_from(data)[0])
        if len(data) >= wanted:
            break
    expect(_LENGTH.size < wanted <= len(data), "a snapshot that is cut short")
    return bytes(data[_LENGTH.size : wanted])
