"""Claims: which incarnation may write the rows that a name guards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ..events.cluster import ClaimReleased, ClaimTaken
from .broken import expect
from .long_values import LongList, sorted_slices


class Claim(NamedTuple):
    """incarnation 0: released.  epoch rises with every holder, so a former holder is fenced."""

    incarnation: int
    epoch: int


_BITS: Final = 32
_INCARNATION: Final = (1 << _BITS) - 1


def _packed(claim: Claim) -> int:
    """Return a claim as one number.  Python's collector need not look at numbers, so a copy of a
    million of them, for a snapshot, costs it nothing.
    """
    return claim.epoch << _BITS | claim.incarnation


def _unpacked(packed: int) -> Claim:
    return Claim(packed & _INCARNATION, packed >> _BITS)


class ClaimTable:
    """Claims by name.  The table of gateways knows whether a holder is live."""

    def __init__(self) -> None:
        self._claims: dict[str, int] = {}

    def get(self, name: str) -> Claim | None:
        """Return the last claim on a name, of any holder."""
        packed = self._claims.get(name)
        return None if packed is None else _unpacked(packed)

    def held_by(self, incarnation: int, prefix: str) -> list[str]:
        """Return the names with a prefix that an incarnation holds; scans all claims."""
        held = (name for name, each in self._claims.items() if each & _INCARNATION == incarnation)
        return [name for name in held if name.startswith(prefix)]

    def fold_taken(self, event: ClaimTaken) -> None:
        """Give a claim to an incarnation."""
        last = self.get(event.name) or Claim(0, 0)
        expect(event.epoch == last.epoch + 1, f"claim {event.name}: epoch {event.epoch}")
        self._claims[event.name] = _packed(Claim(event.incarnation, event.epoch))

    def fold_released(self, event: ClaimReleased) -> None:
        """Take a claim from its holder, keeping the epoch."""
        last = self.get(event.name)
        expect(last is not None, f"claim {event.name} released, but unknown")
        if last is not None:
            self._claims[event.name] = _packed(Claim(0, last.epoch))

    def inherit(self, superseded: int, heir: int) -> None:
        """Hand over all claims of a gateway that restarted."""
        for name, packed in self._claims.items():
            if packed & _INCARNATION == superseded:
                self._claims[name] = packed - superseded + heir

    def forget(self, name: str) -> None:
        """Drop the name of a deleted group or task."""
        self._claims.pop(name, None)

    def encode(self) -> LongList:
        """Return the whole table."""
        claims = self._claims.copy()
        return LongList(len(claims), sorted_slices(claims, _row))

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self._claims = {name: _packed(Claim(*claim)) for name, *claim in rows}


def _row(name: str, packed: int) -> list[object]:
    return [name, *_unpacked(packed)]
