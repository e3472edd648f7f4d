"""WAL objects whose bytes are in entries of the log, and not in the store; see decision 49.

The snapshot keeps the entries' positions alone.  A replica keeps the bytes in memory, too: from the
entry that it folds, or from the log if it began with a snapshot (log/inlined_bodies.py).  So a
gateway asks the store for none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class InlinedObjects:
    """By number of the object: the position of its entry, and its body.

    size_bytes: of all bodies, also of those that are not in memory.
    """

    __slots__ = ("_bodies", "_places", "size_bytes")

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int]] = {}
        self._bodies: dict[int, bytes] = {}
        self.size_bytes = 0

    def __contains__(self, number: int) -> bool:
        return number in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers, rising."""
        return iter(self._places)

    def add(self, number: int, position: int, body: bytes) -> None:
        """Keep an object of the entry at a position of the log."""
        self._places[number] = (position, len(body))
        self._bodies[number] = body
        self.size_bytes += len(body)

    def forget(self, number: int) -> None:
        """Drop an object, if it is here: the store has its live batches, or none is live."""
        place = self._places.pop(number, None)
        if place is not None:
            self.size_bytes -= place[1]
            self._bodies.pop(number, None)

    def forget_all(self) -> None:
        """Drop all objects: a restore has stored each under its own key."""
        self._places.clear()
        self._bodies.clear()
        self.size_bytes = 0

    def body(self, number: int) -> bytes | None:
        """Return the bytes of an object; None if they are not in memory."""
        return self._bodies.get(number)

    def fill(self, number: int, body: bytes) -> None:
        """Bring the bytes of an object into memory."""
        if number in self._places:
            self._bodies[number] = body

    def absent(self) -> dict[int, int]:
        """Return the positions of the entries whose bytes are not in memory, by object."""
        return {
            number: position
            for number, (position, _) in self._places.items()
            if number not in self._bodies
        }

    @property
    def first_position(self) -> int | None:
        """Return the position of the oldest entry with bytes that the store lacks.

        Objects are numbered in the order of their entries.
        """
        first = next(iter(self._places.values()), None)
        return first[0] if first is not None else None

    def encode(self) -> list[list[int]]:
        """Return the places, without the bytes."""
        return [[number, *place] for number, place in self._places.items()]

    def decode(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Fill an empty table from encode()'s answer."""
        for number, position, size_bytes in rows:
            self._places[number] = (position, size_bytes)
            self.size_bytes += size_bytes
