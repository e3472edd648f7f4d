"""WAL objects whose bytes are in entries of the log, and not in the store; see decision 49.

The snapshot keeps the entries' positions, but not the bytes.  A replica keeps the bytes in memory,
too: from the entry that it folds, or from the log if it began with a snapshot
(log/inlined_bodies.py).  So a gateway asks the store for none of these objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_OBJECT_BYTES: Final = 400
"""The memory that an object takes beside its body."""


class InlinedObjects:
    """By number of the object: the position of its entry, and its body.

    size_bytes: of all bodies, also of those that are not in memory.
    added_bytes: of all bodies that this process has ever added.
    """

    __slots__ = ("_bodies", "_by_author", "_dead", "_places", "added_bytes", "size_bytes")

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int, int]] = {}
        self._by_author: dict[int, dict[int, None]] = {}
        self._bodies: dict[int, bytes] = {}
        self._dead: set[int] = set()
        self.size_bytes = 0
        self.added_bytes = 0

    def __contains__(self, number: int) -> bool:
        return number in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers, rising."""
        return iter(self._places)

    def authors(self) -> list[int]:
        """Return the incarnations whose objects are here."""
        return list(self._by_author)

    def of_author(self, incarnation: int) -> Iterator[int]:
        """Yield the numbers of an incarnation's objects, rising."""
        return iter(self._by_author.get(incarnation, ()))

    def add(self, number: int, incarnation: int, position: int, body: bytes) -> None:
        """Keep an object of the entry at a position of the log.  body: empty for a dead object."""
        if body:
            self._place(number, position, len(body), incarnation)
            self._bodies[number] = body
            self.added_bytes += len(body)
        else:
            self._dead.add(number)

    def _place(self, number: int, position: int, size_bytes: int, incarnation: int) -> None:
        self._places[number] = (position, size_bytes, incarnation)
        self._by_author.setdefault(incarnation, {})[number] = None
        self.size_bytes += size_bytes

    def forget(self, number: int) -> None:
        """Drop the bytes of an object, if it is here: it has no live run any more."""
        place = self._places.pop(number, None)
        if place is None:
            return
        _, size_bytes, incarnation = place
        self.size_bytes -= size_bytes
        self._bodies.pop(number, None)
        self._dead.add(number)
        ours = self._by_author[incarnation]
        del ours[number]
        if not ours:
            del self._by_author[incarnation]

    def was_stored(self, number: int) -> bool:
        """Return whether a key of the store is an object's own.

        The key of an object that was only in the log may hold an object that another log's life
        of the same incarnation stored; so the housekeeper does not delete it.
        """
        return number not in self._dead and number not in self._places

    def collected(self, numbers: Iterable[int]) -> None:
        """Forget dead objects."""
        if self._dead:
            self._dead.difference_update(numbers)

    def forget_all(self) -> None:
        """Drop all objects: a restore has stored each under its own key."""
        self._places.clear()
        self._by_author.clear()
        self._bodies.clear()
        self.size_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Return about how much memory all objects take."""
        return self.size_bytes + _OBJECT_BYTES * len(self._places)

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
            for number, (position, _, _) in self._places.items()
            if number not in self._bodies
        }

    @property
    def first_position(self) -> int | None:
        """Return the position of the oldest entry with bytes that the store lacks.

        Objects are numbered in the order of their entries.
        """
        first = next(iter(self._places.values()), None)
        return first[0] if first is not None else None

    def encode(self) -> dict[str, object]:
        """Return the places, without the bytes, and the dead objects; empty if there are none."""
        if not self._places and not self._dead:
            return {}
        places = [[number, *place] for number, place in self._places.items()]
        return {"inlined": places, "inlined_dead": sorted(self._dead)}

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from a map that holds encode()'s answer, if there was any."""
        for number, *place in table.get("inlined", ()):
            self._place(number, *place)
        self._dead.update(table.get("inlined_dead", ()))
