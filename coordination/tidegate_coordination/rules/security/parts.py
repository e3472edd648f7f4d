"""A long list of changes, cut so that an entry of the metadata log holds each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

Item = TypeVar("Item")

MAX_PART_BYTES: Final = 128 << 10
"""The most bytes of changes in one proposal, unless a single change is larger.  With the answer,
which may repeat them, they stay far below what any log takes.
"""


def parts(items: Sequence[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield the items in order, in lists of up to MAX_PART_BYTES each."""
    part: list[Item] = []
    size_bytes = 0
    for each in items:
        size_bytes += size_of(each)
        if part and size_bytes > MAX_PART_BYTES:
            yield part
            part, size_bytes = [], size_of(each)
        part.append(each)
    if part:
        yield part


def is_one_part(items: Sequence[Item], size_of: Callable[[Item], int]) -> bool:
    """Return whether parts() would not cut the items."""
    return len(items) < 2 or sum(map(size_of, items)) <= MAX_PART_BYTES
