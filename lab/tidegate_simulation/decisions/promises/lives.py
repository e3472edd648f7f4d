"""The promises about incarnations of gateways: their writes, draining, and moves of the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import log_moves as lev
from tidegate_coordination.events.entries import AnyEvent, Entry, authored
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.rules.draining import Marked

from .moment import Moment


def ended_in(event: AnyEvent) -> int:
    """Return the incarnation that an event ends; 0: none."""
    if isinstance(event, ev.GatewayExpired):
        return event.incarnation
    return event.supersedes if isinstance(event, ev.GatewayRegistered) else 0


class LifePromises:
    """An ended incarnation writes nothing; a gateway drains from a drain until a resume."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._draining: Final[set[int]] = set()
        self._live: Final[dict[int, int]] = {}

    def before(self, entry: Entry) -> None:
        """Judge an entry before its fold."""
        if entry.writer and entry.writer not in self._live:
            self._moment.complain(f"an entry of incarnation {entry.writer}, which ended")
        for author, event in authored(entry):
            if isinstance(event, ev.Proposed) and author not in self._live:
                self._moment.complain(f"a proposal of incarnation {author}, which ended")
            self._event(event)

    def _event(self, event: AnyEvent) -> None:
        ended = ended_in(event)
        if ended:
            self._live.pop(ended, None)
            self._draining.discard(ended)
        match event:
            case ev.GatewayRegistered():
                if event.node_id in self._live.values():
                    self._moment.complain(f"node {event.node_id} lives twice")
                self._live[event.incarnation] = event.node_id
            case ev.GatewayDraining():
                self._draining.add(event.incarnation)
            case ev.GatewayResumed():
                self._draining.discard(event.incarnation)
            case TimelineOpened():
                self._live.clear()
                self._draining.clear()
            case _:
                pass

    def is_live(self, incarnation: int) -> bool:
        """Return whether an incarnation lives after the events so far."""
        return incarnation in self._live

    def marked(self, node_id: int, answer: Marked, *, drains: bool) -> None:
        """Judge the answer to an operator's command.

        Refusals are not judged, because later events of the entry may have changed the gateway.
        """
        if answer is not Marked.DONE:
            return
        found = [each for each, node in self._live.items() if node == node_id]
        if not found or (found[0] in self._draining) != drains:
            self._moment.complain(f"node {node_id} drains not as the answer says: {answer}")

    def check(self) -> None:
        """Compare all."""
        live = self._moment.truth.gateways.live
        if {each: live[each].node_id for each in live} != self._live:
            self._moment.complain(f"{list(live)} live, and should be {self._live}")
        brokers = {each.incarnation for each in self._moment.truth.gateways.brokers()}
        takes_work = {each.incarnation for each in self._moment.truth.gateways.serving()}
        if takes_work != (brokers - self._draining or brokers):
            self._moment.complain(f"{takes_work} take new work, and {self._draining} drain")
        for each in live.values():
            if each.draining != (each.incarnation in self._draining):
                self._moment.complain(f"{each} drains not as it should")


@dataclass(slots=True)
class _Move:
    move_id: str
    mover: int
    is_offered: bool = False
    ready: set[int] = field(default_factory=set[int])


class MovePromises:
    """The log is sealed only if its copy was offered, and all gateways can use the copy."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._present: _Move | None = None

    def before(self, entry: Entry) -> None:
        """Judge an entry before its fold."""
        for event in entry.events:
            self._event(event)

    def _event(self, event: AnyEvent) -> None:
        ended = ended_in(event)
        if ended and self._present is not None and self._present.mover == ended:
            self._present = None
        match event:
            case TimelineOpened():
                self._present = None
            case lev.LogMoveBegun():
                self._present = _Move(event.move_id, event.incarnation)
            case lev.LogMoveOffered():
                self._of(event.move_id).is_offered = True
            case lev.LogMoveAnswered():
                ready = self._of(event.move_id).ready
                (ready.discard if event.complaint else ready.add)(event.incarnation)
            case lev.LogMoveCancelled():
                self._of(event.move_id)
                self._present = None
            case lev.LogMoved():
                self._sealed(self._of(event.move_id))
                self._present = None
            case _:
                pass

    def _of(self, move_id: str) -> _Move:
        if self._present is None or self._present.move_id != move_id:
            self._moment.complain(f"log move {move_id} is over, and goes on")
            self._present = _Move(move_id, 0)
        return self._present

    def _sealed(self, move: _Move) -> None:
        late = [each for each in self._brokers() if each not in move.ready]
        if late or not move.is_offered:
            self._moment.complain(f"{move} ends, and {late} cannot use the new log")

    def _brokers(self) -> Iterator[int]:
        return (each.incarnation for each in self._moment.truth.gateways.brokers())
