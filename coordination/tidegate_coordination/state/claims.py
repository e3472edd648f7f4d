"""Claims: which incarnation may write the rows that a name guards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..events.cluster import ClaimReleased, ClaimTaken
from .broken import expect


class Claim(NamedTuple):
    """incarnation 0: released.  epoch rises with every holder, so a former holder is fenced."""

    incarnation: int
    epoch: int


class ClaimTable:
    """Claims by name.  The table of gateways knows whether a holder is live."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}

    def get(self, name: str) -> Claim | None:
        """Return the last claim on a name, of any holder."""
        return self._claims.get(name)

    def held_by(self, incarnation: int, prefix: str) -> list[str]:
        """Return the names with a prefix that an incarnation holds; scans all claims."""
        held = (name for name, claim in self._claims.items() if claim.incarnation == incarnation)
        return [name for name in held if name.startswith(prefix)]

    def fold_taken(self, event: ClaimTaken) -> None:
        """Give a claim to an incarnation."""
        last = self._claims.get(event.name, Claim(0, 0))
        expect(event.epoch == last.epoch + 1, f"claim {event.name}: epoch {event.epoch}")
        self._claims[event.name] = Claim(event.incarnation, event.epoch)

    def fold_released(self, event: ClaimReleased) -> None:
        """Take a claim from its holder, keeping the epoch."""
        last = self._claims.get(event.name)
        expect(last is not None, f"claim {event.name} released, but unknown")
        if last is not None:
            self._claims[event.name] = Claim(0, last.epoch)

    def inherit(self, superseded: int, heir: int) -> None:
        """Hand over all claims of a gateway that restarted."""
        for name, claim in self._claims.items():
            if claim.incarnation == superseded:
                self._claims[name] = Claim(heir, claim.epoch)

    def forget(self, name: str) -> None:
        """Drop the name of a deleted group or task."""
        self._claims.pop(name, None)

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return [[name, *claim] for name, claim in sorted(self._claims.items())]

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self._claims = {name: Claim(incarnation, epoch) for name, incarnation, epoch in rows}
