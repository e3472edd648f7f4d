"""The promises of answers about claims."""

from __future__ import annotations

from typing import Final

from .moment import Moment


class ClaimPromises:
    """One holder at a time, and epochs that only rise."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._held: Final[dict[str, tuple[int, int]]] = {}

    def taken(self, name: str, incarnation: int, epoch: int) -> None:
        """Judge the answer to a gateway that has the claim now."""
        holder, last = self._held.get(name, (0, 0))
        if holder == incarnation and epoch == last:
            return
        if holder != incarnation and self._moment.truth.gateways.is_live(holder):
            text = f"claim {name} went from {holder}, which lives, to {incarnation}"
            self._moment.complain(text)
        self.moved(name, incarnation, epoch)

    def moved(self, name: str, incarnation: int, epoch: int) -> None:
        """Record that an incarnation has a claim now, which another one may have held."""
        _, last = self._held.get(name, (0, 0))
        if epoch != last + 1:
            self._moment.complain(f"claim {name} has epoch {epoch} after {last}")
        self._held[name] = (incarnation, epoch)

    def used(self, name: str, incarnation: int, epoch: int) -> None:
        """Judge a write under a claim that was accepted."""
        if self._held.get(name) != (incarnation, epoch):
            text = f"{incarnation} writes under claim {name}, epoch {epoch}, and lost it"
            self._moment.complain(text)

    def used_now(self, name: str, incarnation: int) -> None:
        """Judge a write of the claim's holder, whatever its epoch."""
        self.used(name, incarnation, self._held.get(name, (0, 0))[1])

    def inherited(self, former: int, incarnation: int) -> None:
        """Record that a new incarnation takes over its gateway's claims, with their epochs."""
        for name, (holder, epoch) in self._held.items():
            if holder == former:
                self._held[name] = (incarnation, epoch)

    def released(self, name: str, incarnation: int) -> None:
        """Record that a gateway released a claim, if it held the claim."""
        holder, epoch = self._held.get(name, (0, 0))
        if holder == incarnation:
            self._held[name] = (0, epoch)

    def forgotten(self, name: str) -> None:
        """Record that a claim is gone with its group; the epochs of a later claim start again."""
        self._held.pop(name, None)
