"""The cuts of the network now, as pairs of names of parts or of zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TypeAlias

Pair: TypeAlias = tuple[str, str]
"""The pairs of parts that do not reach each other."""


class Cuts:
    """zone_of: gives the zone of a part, "" for none."""

    def __init__(self, zone_of: Callable[[str], str]) -> None:
        self._zone_of = zone_of
        self._zones: dict[str, str] = {}
        self._pairs: Counter[Pair] = Counter()

    def reaches(self, source: str, target: str) -> bool:
        """Return whether bytes of one part arrive at another."""
        if not self._pairs:
            return True
        between_zones = (self._zone(source), self._zone(target))
        return (source, target) not in self._pairs and between_zones not in self._pairs

    def connects(self, one: str, other: str) -> bool:
        """Return whether two parts can open a connection."""
        return self.reaches(one, other) and self.reaches(other, one)

    def _zone(self, part: str) -> str:
        if part not in self._zones:
            self._zones[part] = self._zone_of(part)
        return self._zones[part]

    @contextmanager
    def between(self, pairs: Iterable[Pair]) -> Generator[None]:
        """Block all bytes from the first part to the second of each pair."""
        cut = Counter(pairs)
        self._pairs += cut
        try:
            yield
        finally:
            self._pairs -= cut
