"""A map of integers to integers in 16 bytes each, for the many small maps of open transactions.

A dict takes 60 bytes for a pair, and 32 more for each of its integers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, MutableMapping
from typing import TypeVar

Default = TypeVar("Default")


class IntMap(MutableMapping[int, int]):
    """Pairs in the order of their keys; 64-bit integers."""

    __slots__ = ("_flat",)

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        # Key, value, key, value: one array is half the size of two as long as they are small.
        self._flat = array("q", [each for pair in sorted(pairs) for each in pair])

    def __len__(self) -> int:
        return len(self._flat) >> 1

    def __iter__(self) -> Iterator[int]:
        return iter(self._flat[::2])

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and self._find(key) >= 0

    def __getitem__(self, key: int) -> int:
        """Return the value of a key.

        Raises:
          KeyError: there is no such key.
        """
        at = self._find(key)
        if at < 0:
            raise KeyError(key)
        return self._flat[at + 1]

    def __setitem__(self, key: int, value: int) -> None:
        """Set the value of a key."""
        flat, at = self._flat, self._place(key)
        if at < len(flat) and flat[at] == key:
            flat[at + 1] = value
        else:
            flat[at:at] = array("q", (key, value))

    def __delitem__(self, key: int) -> None:
        """Remove a key.

        Raises:
          KeyError: there is no such key.
        """
        at = self._find(key)
        if at < 0:
            raise KeyError(key)
        del self._flat[at : at + 2]

    def as_dict(self) -> dict[int, int]:
        """Return the pairs; quicker than one by one."""
        return dict(zip(self._flat[::2], self._flat[1::2], strict=True))

    def has_keys(self, keys: Iterable[int]) -> bool:
        """Return whether these are its keys, each once, in any order."""
        return self._flat[::2] == array("q", sorted(keys))

    def _find(self, key: int) -> int:
        at = self._place(key)
        return at if at < len(self._flat) and self._flat[at] == key else -1

    def _place(self, key: int) -> int:
        """Return where a key is, or would be."""
        flat = self._flat
        if not flat or flat[-2] < key:
            return len(flat)  # most are added in their order
        if flat[-2] == key:
            return len(flat) - 2
        return bisect_left(range(0, len(flat), 2), key, key=flat.__getitem__) * 2
