"""Finds the gateways that do not answer, so that this gateway sends no clients to them.

A gateway that died stays in the cluster state until its lease expires, and a client that is sent to
it waits that long.  So each gateway probes the others every second: it sends a client's first
request (answering.py) to the addresses that they advertise to clients.  If a gateway answered
before and does not now, this gateway leaves it out of its metadata answers (cluster_view.py).  This
is only a hint, like all placement: any gateway serves any partition, so a wrong guess makes the
load less balanced, but loses no record.

A gateway that never answered at its address does not count as absent: perhaps only clients can
reach this address.  A new incarnation registers before it serves.  So if its previous incarnation
answered at this address, the new one has ANSWER_SECONDS before it counts as absent.  The time
starts at the first silence and runs across incarnations, so a gateway that dies soon after each
start stays absent.  A draining gateway is not probed, since clients are not sent to it anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog
import trio

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.state.writers.gateways import Gateway, GatewayTable

from .answering import ANSWER_SECONDS, is_answered
from .peers import Dial

LOOK_SECONDS: Final = 1.0

_log = structlog.get_logger("tidegate.neighbours")


@dataclass(slots=True)
class _Heard:
    """A node's address and incarnation that answered last.  silent_since: None if it answers."""

    address: Endpoint
    incarnation: int
    silent_since: float | None = None


class Neighbours:
    """Probes the other gateways, and knows which ones are absent.

    absent: incarnations.  changes: how often a gateway became absent, or answered again.

    Args:
      listeners: the names of listeners that answer without a PROXY header.
      dial: opens connections to an address.
    """

    def __init__(
        self,
        gateways: GatewayTable,
        own_incarnation: int,
        listeners: Iterable[str],
        dial: Dial,
    ) -> None:
        self.absent: frozenset[int] = frozenset()
        self.changes = 0
        self._gateways = gateways
        self._own_incarnation = own_incarnation
        self._listeners = tuple(listeners)
        self._dial = dial
        self._heard: dict[int, _Heard] = {}
        self._looked_at: set[int] = set()

    async def run(self) -> None:
        """Ask the other gateways, forever; a silent gateway does not delay the others."""
        async with trio.open_nursery() as nursery:
            while True:
                asked = [each for each in self._gateways.brokers() if self._is_asked(each)]
                self._forget_others(asked)
                for each in asked:
                    if each.incarnation not in self._looked_at:
                        self._looked_at.add(each.incarnation)
                        nursery.start_soon(self._look_at, each)
                await trio.sleep(LOOK_SECONDS)

    def _is_asked(self, gateway: Gateway) -> bool:
        is_other = gateway.incarnation != self._own_incarnation
        return is_other and not gateway.draining and self._address(gateway) is not None

    def _address(self, gateway: Gateway) -> Endpoint | None:
        found = (gateway.endpoint(each) for each in self._listeners)
        return next((each for each in found if each is not None), None)

    def _forget_others(self, asked: Iterable[Gateway]) -> None:
        asked_by_node = {each.node_id: each.incarnation for each in asked}
        self.absent &= frozenset(asked_by_node.values())
        for node_id, heard in self._heard.items():
            if node_id not in asked_by_node:
                heard.silent_since = None

    async def _look_at(self, gateway: Gateway) -> None:
        began = trio.current_time()
        try:
            answers = await self._answers(gateway)
        finally:
            self._looked_at.remove(gateway.incarnation)
        if not self._gateways.is_live(gateway.incarnation):
            # the incarnation has ended, and the result says nothing about the next one
            return
        if answers:
            self._note_answer(gateway)
        elif self._is_silent(gateway, began) and gateway.incarnation not in self.absent:
            _log.warning("a gateway does not answer; clients are sent elsewhere", **_who(gateway))
            self.absent |= {gateway.incarnation}
            self.changes += 1

    def _is_silent(self, gateway: Gateway, since: float) -> bool:
        """Return whether a gateway that did not answer counts as absent."""
        heard = self._heard.get(gateway.node_id)
        if heard is None or heard.address != self._address(gateway):
            return False
        if heard.silent_since is None:
            heard.silent_since = since
        has_answered = heard.incarnation == gateway.incarnation
        return has_answered or trio.current_time() - heard.silent_since >= ANSWER_SECONDS

    def _note_answer(self, gateway: Gateway) -> None:
        address = self._address(gateway)
        assert address is not None, "it is not asked without one"
        self._heard[gateway.node_id] = _Heard(address, gateway.incarnation)
        if gateway.incarnation in self.absent:
            _log.info("a gateway answers again", **_who(gateway))
            self.absent -= {gateway.incarnation}
            self.changes += 1

    async def _answers(self, gateway: Gateway) -> bool:
        address = self._address(gateway)
        assert address is not None, "it is not asked without one"
        return await is_answered(self._dial(address.host, address.port))


def _who(gateway: Gateway) -> dict[str, object]:
    return {"node_id": gateway.node_id, "zone": gateway.zone}
