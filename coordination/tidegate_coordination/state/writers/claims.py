"""Claims: which incarnation may write the rows that a name guards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ...events.cluster import ClaimReleased, ClaimTaken
from ..broken import expect
from ..long_values import LongList, sorted_slices


class Claim(NamedTuple):
    """incarnation 0: released.  epoch rises with every holder, so a former holder is fenced."""

    incarnation: int
    epoch: int


@dataclass(slots=True)
class _Holder:
    """An incarnation that holds at least one claim, or 0.

    number: it stays the same when a restarted gateway inherits the claims.  names: its claims, in a
    dict because the order of a set differs between processes.
    """

    number: int
    incarnation: int
    names: dict[str, None] = field(default_factory=dict[str, None])


_BITS: Final = 64
_NUMBER: Final = (1 << _BITS) - 1


@lru_cache(maxsize=1 << 12)
def _packed(holder: int, epoch: int) -> int:
    """Return the number of a holder and an epoch as one number.

    Python's garbage collector does not visit numbers, so a copy of a million of them, for a
    snapshot, costs it nothing.  Claims with equal numbers share one object.
    """
    return epoch << _BITS | holder


class ClaimTable:
    """Claims by name and by holder.  The table of gateways knows whether a holder is live."""

    def __init__(self) -> None:
        self._claims: dict[str, int] = {}
        self._holders: dict[int, _Holder] = {}  # by number
        self._by_incarnation: dict[int, _Holder] = {}
        self._last_number = 0

    def get(self, name: str) -> Claim | None:
        """Return the last claim on a name, of any holder."""
        packed = self._claims.get(name)
        if packed is None:
            return None
        return Claim(self._holders[packed & _NUMBER].incarnation, packed >> _BITS)

    def held_by(self, incarnation: int, prefix: str) -> list[str]:
        """Return the names with a prefix that an incarnation holds."""
        holder = self._by_incarnation.get(incarnation)
        return [each for each in holder.names if each.startswith(prefix)] if holder else []

    def fold_taken(self, event: ClaimTaken) -> None:
        """Give a claim to an incarnation."""
        last = self.get(event.name) or Claim(0, 0)
        expect(event.epoch == last.epoch + 1, f"claim {event.name}: epoch {event.epoch}")
        self._give(event.name, event.incarnation, event.epoch)

    def fold_released(self, event: ClaimReleased) -> None:
        """Take a claim from its holder, keeping the epoch."""
        last = self.get(event.name)
        expect(last is not None, f"claim {event.name} released, but unknown")
        if last is not None:
            self._give(event.name, 0, last.epoch)

    def inherit(self, superseded: int, heir: int) -> None:
        """Hand over all claims of a gateway that restarted."""
        former = self._by_incarnation.get(superseded)
        if former is None:
            return
        # rules decide no such entry, because the heir is a new incarnation
        if heir in self._by_incarnation:
            for name in list(former.names):
                self._give(name, heir, self._claims[name] >> _BITS)
            return
        del self._by_incarnation[superseded]
        former.incarnation = heir
        self._by_incarnation[heir] = former

    def forget(self, name: str) -> None:
        """Drop the name of a deleted group or task."""
        packed = self._claims.pop(name, None)
        if packed is not None:
            self._take(name, self._holders[packed & _NUMBER])

    def encode(self) -> LongList:
        """Return the whole table."""
        claims = self._claims.copy()
        incarnations = {number: each.incarnation for number, each in self._holders.items()}

        def row(name: str, packed: int) -> list[object]:
            return [name, incarnations[packed & _NUMBER], packed >> _BITS]

        return LongList(len(claims), sorted_slices(claims, row))

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        for name, incarnation, epoch in rows:
            self._give(name, incarnation, epoch)

    def _give(self, name: str, incarnation: int, epoch: int) -> None:
        former = self._claims.get(name)
        if former is not None:
            self._take(name, self._holders[former & _NUMBER])
        holder = self._holder(incarnation)
        holder.names[name] = None
        self._claims[name] = _packed(holder.number, epoch)

    def _take(self, name: str, holder: _Holder) -> None:
        del holder.names[name]
        if not holder.names:
            del self._holders[holder.number]
            del self._by_incarnation[holder.incarnation]

    def _holder(self, incarnation: int) -> _Holder:
        holder = self._by_incarnation.get(incarnation)
        if holder is None:
            self._last_number += 1
            holder = _Holder(self._last_number, incarnation)
            self._holders[holder.number] = self._by_incarnation[incarnation] = holder
        return holder
