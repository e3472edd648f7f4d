"""Planted bugs of writes that gateways forward to a link's source."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import trio

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.wire.connection import BrokerConnection
from tidegate_coordination.client.wire.slots import Slot
from tidegate_gateway.migration.forward.writes import Beginning, Forward, Forwards
from tidegate_gateway.network.forward_line import ForwardLine
from tidegate_gateway.requests.records import produce, produce_forwarding
from tidegate_gateway.requests.records.forwarded_request import ForwardedRequest
from tidegate_protocol.error_codes import ErrorCode
from tidegate_simulation.plans.faults import FaultPlan


def repeats_what_is_unknown(patch: pytest.MonkeyPatch) -> None:
    """A request whose connection broke is sent once more, over another one."""
    real_begin, real_finish = Forwards.begin, Forwards._finish
    ways: dict[int, Any] = {}

    async def begin(self: Forwards, route: Any, forward: Forward, until: float) -> Beginning:
        ways[id(forward)] = route
        return await real_begin(self, route, forward, until)

    async def finish(
        self: Forwards, connection: BrokerConnection, slot: Slot, forward: Forward
    ) -> None:
        try:
            await connection.answer_to(slot)
        except ClassicError:
            route = ways[id(forward)]
            try:
                connection = await route.cluster.connection(route.node_id, "again")
                slot = await connection.begin("Produce", forward.request)
            except ClassicError:
                pass
        await real_finish(self, connection, slot, forward)

    patch.setattr(ForwardedRequest, "release", lambda self: None)
    patch.setattr(Forwards, "begin", begin)
    patch.setattr(Forwards, "_finish", finish)


def goes_on_after_a_loss(patch: pytest.MonkeyPatch) -> None:
    """A lost batch gets an error, and the next one of the connection is forwarded."""

    def lose(self: ForwardedRequest, reason: str) -> None:
        for each in self._batches:
            each.token.fill(
                lambda answer: setattr(answer, "error_code", ErrorCode.REQUEST_TIMED_OUT)
            )
        self._flusher.flush()

    patch.setattr(ForwardedRequest, "lose", lose)


def forwards_after_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """A batch is forwarded though the one before it was refused."""
    patch.setattr(produce, "check_order", lambda *arguments: None)
    patch.setattr(produce_forwarding, "check_order", lambda *arguments: None)


def takes_any_lane(patch: pytest.MonkeyPatch) -> None:
    """The requests of one client go over several connections to a broker."""
    numbers = count()
    real = Forwards.begin

    async def begin(self: Forwards, route: Any, forward: Forward, until: float) -> Beginning:
        forward.line.lane = next(numbers) % 16
        return await real(self, route, forward, until)

    patch.setattr(Forwards, "begin", begin)
    patch.setattr(ForwardLine, "goes_elsewhere", lambda *arguments: False)


def sends_in_the_background(patch: pytest.MonkeyPatch) -> None:
    """A request may be sent after a later one."""
    real = Forwards._send

    async def send(self: Forwards, connection: BrokerConnection, forward: Forward) -> Beginning:
        async def later() -> None:
            await trio.sleep(next(pauses) % 3 * 0.2)
            await real(self, connection, forward)

        assert self._nursery is not None
        self._nursery.start_soon(later)
        return Beginning.BEGUN

    pauses = count()
    patch.setattr(ForwardedRequest, "release", lambda self: None)
    patch.setattr(Forwards, "_send", send)


def has_forwards(plan: FaultPlan) -> bool:
    return plan.links.forwards


@pytest.mark.parametrize(
    ("plant", "first_seed"),
    [
        (repeats_what_is_unknown, 55),
        (goes_on_after_a_loss, 55),
        (forwards_after_a_refusal, 20),
        (takes_any_lane, 4),
        (sends_in_the_background, 3),
    ],
)
def test_the_simulator_finds_it(
    plant: Plant, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, {"forward"}, first_seed, monkeypatch, has_forwards, links=True)
