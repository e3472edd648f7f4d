"""Reads batches out of a broker's segment files, from any offset on.  Blocks.

The index is a hint: if the header at the indexed byte does not begin at or below the offset, the
file is walked from its start.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final

from tidegate_protocol.batches import HEADER_BYTES, BatchHeader, read_header

from .log_folders import segment_bases, segment_name

_BEING_SWAPPED: Final = ".log.swap"
_ENTRY: Final = Struct(">ii")
# Batches are found by their headers; one read returns several headers.
_WALK_BYTES: Final = 64 << 10


def portion_of(folder: Path, offset: int, most: int) -> bytes:
    """Return about `most` bytes, starting with the batch that holds an offset or the next one.

    Files are read one after another; the last batch may be cut short.  Empty if there is no such
    batch.

    Raises:
      OSError: a file cannot be read.
    """
    bases = _bases(folder)
    below = [each for each in bases if each <= offset]
    for base in [*below[-1:], *(each for each in bases if each > offset)]:
        if base > offset and _bases(folder) != bases:
            raise OSError("a broker changes it: stop the broker, or take a snapshot again")
        with _opened(folder / segment_name(base, "log")) as file:
            at = _byte_of(file, _hint(folder, base, offset, file), offset)
            if at >= 0:
                return _whole_first(file, at, most)
    return b""


def _bases(folder: Path) -> list[int]:
    """Return the base offsets of the segments.

    Raises:
      OSError: a file is missing while compaction replaces it.
    """
    names = [each.name for each in folder.iterdir()]
    if any(each.endswith(_BEING_SWAPPED) for each in names):
        raise OSError("a broker was compacting it: start the broker, and stop it in order")
    return segment_bases(names)


@contextmanager
def _opened(path: Path) -> Generator[int, None, None]:
    file = os.open(path, os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)


def _whole_first(file: int, at: int, most: int) -> bytes:
    """Read from a batch on, at least this whole batch."""
    header = _header(file, at)
    size = header.size_bytes if header is not None else 0
    return os.pread(file, max(size, most), at)


def _header(file: int, at: int) -> BatchHeader | None:
    data = os.pread(file, HEADER_BYTES, at)
    return read_header(data) if len(data) == HEADER_BYTES else None


def _byte_of(file: int, at: int, offset: int) -> int:
    """Return where the first batch that ends at or after an offset begins; -1 if there is none."""
    while True:
        data = os.pread(file, _WALK_BYTES, at)
        begin = 0
        while len(data) - begin >= HEADER_BYTES:
            header = read_header(data, begin)
            if header.size_bytes < HEADER_BYTES or header.last_offset >= offset:
                # The task says what is damaged.
                return at + begin
            begin += header.size_bytes
        if begin == 0:
            return -1
        at += begin


def _hint(folder: Path, base: int, offset: int, log: int) -> int:
    """Return a byte of a segment at or before the batch with an offset."""
    try:
        with _opened(folder / segment_name(base, "index")) as file:
            at = _indexed(file, offset - base)
    except OSError:
        return 0
    header = _header(log, at)
    is_good = header is not None and base <= header.base_offset <= offset
    return at if is_good else 0


def _indexed(file: int, relative: int) -> int:
    """Return the byte of the last entry at or below a relative offset; 0 if there is none.

    An index in use is longer than its entries: zeros follow.
    """
    low, high, found = 0, os.fstat(file).st_size // _ENTRY.size, 0
    while low < high:
        middle = (low + high) // 2
        entry, at = _ENTRY.unpack(os.pread(file, _ENTRY.size, middle * _ENTRY.size))
        is_padding = not at and middle > 0
        if is_padding or entry > relative:
            high = middle
        else:
            low, found = middle + 1, at
    return found
