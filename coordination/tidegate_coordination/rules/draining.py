"""Draining at an operator's command, by node id, proposed by any writer of the log.

A gateway whose own process asks it to drain proposes StartDraining itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..events.cluster import Event, GatewayDrained, GatewayDraining, GatewayResumed
from .proposal import GATEWAYS, Decided, View

_GATEWAYS = frozenset({GATEWAYS})


class Marked(Enum):
    """The result of an operator's command."""

    DONE = "done"
    ALREADY = "it was so already"
    UNKNOWN = "no live gateway has this node id"


@dataclass(frozen=True, slots=True)
class DrainGateway:
    """Let a gateway take no new work; stops: its process ends once it has no work left.

    Answer: Marked.
    """

    node_id: int
    stops: bool = False
    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[Marked]:
        """See the class."""
        gateway = view.state.gateways.by_node_id(self.node_id)
        if gateway is None or not gateway.is_broker:
            return Decided((), Marked.UNKNOWN)
        if gateway.draining and (gateway.stops or not self.stops):
            return Decided((), Marked.ALREADY)
        return Decided((GatewayDraining(gateway.incarnation, self.stops),), Marked.DONE)


@dataclass(frozen=True, slots=True)
class ResumeGateway:
    """Let a gateway that drains take new work again.  Answer: Marked."""

    node_id: int
    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[Marked]:
        """See the class."""
        gateway = view.state.gateways.by_node_id(self.node_id)
        if gateway is None or not gateway.is_broker:
            return Decided((), Marked.UNKNOWN)
        if not gateway.draining:
            return Decided((), Marked.ALREADY)
        return Decided((GatewayResumed(gateway.incarnation),), Marked.DONE)


@dataclass(frozen=True, slots=True)
class ReportDrained:
    """Report that the writer has no work left.  Answer: None."""

    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        events: list[Event] = []
        me = view.state.gateways.live.get(view.writer)
        if me is not None and me.draining and not me.is_drained:
            events.append(GatewayDrained(view.writer))
        return Decided(events, None)
