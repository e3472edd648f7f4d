"""Rows of numbers by a number that only rises: most exist briefly, a few for ever.

A page holds the rows of 4,096 numbers in columns.  Removed rows stay in the page until they are
half of it; then the page is rewritten.  So a few old rows keep little memory, a removal never takes
long, and the remaining rows cost little more than their columns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, Final

from ..long_values import LongBytes, LongList, LongValue

_PAGE_BITS: Final = 12
_NUMBER: Final = "Q"


class _Page:
    """numbers: of its rows, rising.  gone: the numbers of removed rows.

    is_frozen: a snapshot refers to this page, so it is copied before a change.
    """

    __slots__ = ("columns", "gone", "is_frozen", "numbers")

    def __init__(
        self, numbers: array[int], columns: Sequence[array[int]], gone: Iterable[int] = ()
    ) -> None:
        self.numbers = numbers
        self.columns = columns
        self.gone = set(gone)
        self.is_frozen = False

    def copy(self) -> _Page:
        """Return a copy that may change."""
        return _Page(self.numbers[:], tuple(column[:] for column in self.columns), self.gone)

    def find(self, number: int) -> int:
        """Return where the row lies.

        Raises:
          KeyError: there is no such row.
        """
        numbers = self.numbers
        at = number - numbers[0]
        if not 0 <= at < len(numbers) or numbers[at] != number:
            at = bisect_left(numbers, number)
            if at == len(numbers) or numbers[at] != number:
                raise KeyError(number)
        if number in self.gone:
            raise KeyError(number)
        return at

    def shrink(self) -> None:
        """Drop the removed rows, if they are half of all."""
        if len(self.gone) * 2 < len(self.numbers):
            return
        stays = [number not in self.gone for number in self.numbers]
        self.columns = tuple(_selected(column, stays) for column in self.columns)
        self.numbers = _selected(self.numbers, stays)
        self.gone.clear()


def _selected(column: array[int], stays: list[bool]) -> array[int]:
    return array(column.typecode, compress(column, stays))


def _long_bytes(code: str, columns: list[array[int]]) -> LongBytes:
    count = sum(map(len, columns))
    return LongBytes(count * array(code).itemsize, (_as(code, column) for column in columns))


def _as(code: str, column: array[int]) -> bytes:
    return (column if column.typecode == code else array(code, column)).tobytes()


def _read(code: str, was: str, data: bytes) -> array[int]:
    column: array[int] = array(was)
    column.frombytes(data)
    return column if was == code else array(code, column)


class ObjectRows:
    """See the module's head.

    codes: the array's type of each column.  next_number: the number of the next row.
    """

    def __init__(self, codes: str) -> None:
        self._codes = codes
        self._pages: dict[int, _Page] = {}
        self._count = 0
        self.next_number = 0

    def __len__(self) -> int:
        return self._count

    def append(self, row: Sequence[int]) -> int:
        """Add a row; return its number."""
        number = self.next_number
        if number >> _PAGE_BITS not in self._pages:
            page = _Page(array(_NUMBER), tuple(array(code) for code in self._codes))
            self._pages[number >> _PAGE_BITS] = page
        page = self._changing(number)
        page.numbers.append(number)
        for column, value in zip(page.columns, row, strict=True):
            column.append(value)
        self.next_number += 1
        self._count += 1
        return number

    def get(self, number: int, column: int) -> int:
        """Return a cell; KeyError where there is no such row."""
        page = self._pages[number >> _PAGE_BITS]
        return page.columns[column][page.find(number)]

    def set(self, number: int, column: int, value: int) -> None:
        """Change a cell."""
        page = self._changing(number)
        page.columns[column][page.find(number)] = value

    def row(self, number: int) -> list[int]:
        """Return all cells of a row; KeyError where there is no such row."""
        page = self._pages[number >> _PAGE_BITS]
        at = page.find(number)
        return [column[at] for column in page.columns]

    def remove(self, numbers: Iterable[int]) -> None:
        """Forget existing rows."""
        touched: dict[int, _Page] = {}
        for number in numbers:
            page = touched[number >> _PAGE_BITS] = self._changing(number)
            page.gone.add(number)
            self._count -= 1
        for place, page in touched.items():
            self._shrink(place, page)

    def _changing(self, number: int) -> _Page:
        """Return the page of a number, for a change; a copy, if a snapshot has the page."""
        page = self._pages[number >> _PAGE_BITS]
        if page.is_frozen:
            page = self._pages[number >> _PAGE_BITS] = page.copy()
        return page

    def _shrink(self, place: int, page: _Page) -> None:
        page.shrink()
        if not page.numbers:
            del self._pages[place]

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all rows, rising.

        Rows may change meanwhile: a row that is added or removed then may be yielded, or not.
        """
        for page in list(self._pages.values()):
            gone = frozenset(page.gone)
            yield from (number for number in list(page.numbers) if number not in gone)

    def encode(self, codes: str = "", number_code: str = _NUMBER) -> dict[str, object]:
        """Return all present rows as the fields of a LongValue.

        codes, number_code: the columns' types for older releases; all numbers must fit.
        """
        pages = list(self._pages.values())
        for page in pages:
            page.is_frozen = True
        columns = [
            _long_bytes(code, [page.columns[at] for page in pages])
            for at, code in enumerate(codes or self._codes)
        ]
        removed = sum(len(page.gone) for page in pages)
        return {
            "next": self.next_number,
            "numbers": _long_bytes(number_code, [page.numbers for page in pages]),
            "columns": LongValue.of_row(columns),
            "collected": LongList(removed, (sorted(page.gone) for page in pages)),
        }

    def decode(self, table: Mapping[str, Any], codes: str = "", number_code: str = _NUMBER) -> None:
        """Fill empty rows from encode()'s answer; encode() was called with the same codes."""
        columns: list[array[int]] = []
        read = codes or self._codes
        for code, was, data in zip(self._codes, read, table["columns"], strict=True):
            columns.append(_read(code, was, data))
        numbers = _read(_NUMBER, number_code, table["numbers"])
        self.fill(table["next"], numbers, columns, table["collected"])

    def fill(
        self,
        next_number: int,
        numbers: array[int],
        columns: Sequence[array[int]],
        removed: Iterable[int],
    ) -> None:
        """Fill empty rows; removed: numbers of rows that are to be forgotten."""
        start = 0
        while start < len(numbers):
            place = numbers[start] >> _PAGE_BITS
            stop = bisect_left(numbers, (place + 1) << _PAGE_BITS, start)
            self._pages[place] = _Page(
                numbers[start:stop], tuple(column[start:stop] for column in columns)
            )
            start = stop
        self._count = len(numbers)
        self.next_number = next_number
        self.remove(removed)
