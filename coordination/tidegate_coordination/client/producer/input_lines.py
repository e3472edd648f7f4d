"""The lines of a file or of stdin as records.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_LINE_BYTES: Final = 64 << 20
"""Of one line.  It is held until it is written, so it must be bounded."""
RECORD_BYTES: Final = 128
"""The memory that a record takes beside its bytes, roughly."""


class BadLine(Exception):
    """A line is no record.  The text says which, and why."""


class InputRecord(NamedTuple):
    """A line of the input, numbered from 1."""

    line: int
    key: bytes | None
    value: bytes | None

    @property
    def size_bytes(self) -> int:
        """Return the memory that the record takes, roughly."""
        return RECORD_BYTES + len(self.key or b"") + len(self.value or b"")


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a line holds a record.

    key_separator: between key and value; None: there are no keys.  null_marker: a key or value that
    is this text is null; None: none is.
    """

    key_separator: bytes | None = None
    null_marker: bytes | None = None

    def record(self, number: int, line: bytes) -> InputRecord:
        """Return the record of a line.

        Raises:
          BadLine: it has no separator.
        """
        if self.key_separator is None:
            return InputRecord(number, None, self._field(line))
        key, found, value = line.partition(self.key_separator)
        if not found:
            separator = self.key_separator.decode(errors="backslashreplace")
            raise BadLine(f"line {number} has no key separator {separator!r}")
        return InputRecord(number, self._field(key), self._field(value))

    def _field(self, text: bytes) -> bytes | None:
        return None if self.null_marker is not None and text == self.null_marker else text


class LineSplitter:
    """Cuts pieces of any length into lines.  A line ends with LF or CR LF, as for Kafka's tools."""

    def __init__(self, line_format: LineFormat, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._format = line_format
        self._max_line_bytes = max_line_bytes
        self._rest = bytearray()
        self.lines = 0  # so many were returned

    def receive(self, piece: bytes) -> Iterator[InputRecord]:
        """Yield the records that a piece completes.

        Raises:
          BadLine: while iterating.
        """
        *ended, rest = piece.split(b"\n")
        for each in ended:
            whole = bytes(self._rest) + each if self._rest else each
            self._rest.clear()
            yield self._record(whole.removesuffix(b"\r"))
        self._rest += rest
        if len(self._rest) > self._max_line_bytes:
            raise BadLine(f"line {self.lines + 1} is longer than {self._max_line_bytes} bytes")

    def end(self) -> Iterator[InputRecord]:
        """Yield the last record if no line end follows it.

        Raises:
          BadLine: while iterating.
        """
        if self._rest:
            yield self._record(bytes(self._rest))
            self._rest.clear()

    def _record(self, line: bytes) -> InputRecord:
        record = self._format.record(self.lines + 1, line)
        self.lines += 1
        return record


def shown_lines(numbers: Sequence[int], *, most: int = 10) -> str:
    """Return sorted line numbers for a person: `3`, `3 to 7 and 9`; the first `most` stretches."""
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and number == stretches[-1][1] + 1:
            stretches[-1][1] = number
        else:
            stretches.append([number, number])
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in stretches]
    if len(texts) > most:
        left = sum(last - first + 1 for first, last in stretches[most:])
        return f"{', '.join(texts[:most])} and {left} more"
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
