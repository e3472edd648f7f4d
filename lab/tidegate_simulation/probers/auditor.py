"""Reads the metadata log as it grows, and finds claims that are taken from a live gateway.

The auditor notes for the checker when a gateway is *unaware*: a lone gateway without answers of the
log still serves its groups, and cannot know that another gateway has expired its lease.
"""

from __future__ import annotations

import trio

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import AnyEvent, authored, decode_entry
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState

from ..clients.client import Client
from ..clients.workload import Workload

LOOK_SECONDS = 0.25


class Auditor:
    """A reader of the metadata log that judges its claims."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._state = ClusterState()
        self._unaware: dict[int, list[str]] = {}

    async def run(self) -> None:
        """Read the log until no operation is left."""
        try:
            while self._workload.operations_left > 0:
                self._read()
                self._see_who_is_aware()
                await trio.sleep(LOOK_SECONDS)
        except (StateBroken, KeyError):
            pass  # StateWatch has complained

    def _read(self) -> None:
        payloads = self._workload.world.watch.payloads
        for position in range(self._state.position + 1, len(payloads) + 1):
            entry = decode_entry(payloads[position - 1], position)
            for author, event in authored(entry):
                self._audit(author, event)
            self._state.apply(position, entry)

    def _audit(self, author: int, event: AnyEvent) -> None:
        state = self._state
        if isinstance(event, ev.ClaimTaken):
            claim = state.claims.get(event.name)
            if claim is not None and state.gateways.is_live(claim.incarnation):
                text = f"{event} from {claim}, which lives"
                self._workload.world.complain("claim stolen", text)
        elif isinstance(event, ev.GatewayExpired) and event.incarnation != author:
            self._see_if_aware(event.incarnation)

    def _see_if_aware(self, ended: int) -> None:
        coordinator = self._workload.world.coordinators.get(ended)
        if coordinator is None or coordinator.state.gateways.has_others(ended):
            return
        held = self._state.claims.held_by(ended, "group/")
        if held:
            self._unaware[ended] = [each.removeprefix("group/") for each in held]
            self._note("unaware", ended)

    def _see_who_is_aware(self) -> None:
        for each in sorted(self._unaware):
            coordinator = self._workload.world.coordinators.get(each)
            if coordinator is None or not coordinator.state.gateways.is_live(each):
                self._note("aware", each)
                del self._unaware[each]

    def _note(self, f: str, incarnation: int) -> None:
        history = self._workload.world.history
        history.note(self.client.name, "info", f, {"groups": self._unaware[incarnation]})
