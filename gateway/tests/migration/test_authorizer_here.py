"""Which gateways are asked whether they have an authorizer, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.events.cluster import Endpoint, GatewayRegistered
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.cli.link import carrying
from tidegate_runtime.settings_texts import BadSource

HANGS, IS_GONE = "hangs", "is gone"


class Gateways:
    """Gateways by node id.  Each has an answer, or hangs, or is gone."""

    def __init__(self, *answers: bool | str | None) -> None:
        self.state = ClusterState()
        self.asked: list[str] = []
        self._answers = {f"g{at}:9092": answer for at, answer in enumerate(answers)}
        for at in range(len(answers)):
            endpoints = (Endpoint("SASL", f"g{at}", 9093), Endpoint("PLAINTEXT", f"g{at}", 9092))
            event = GatewayRegistered(at + 1, at, f"k{at}", "", endpoints, "0", 0)
            self.state.gateways.fold_registered(event, 0)

    @asynccontextmanager
    async def opened(self, address: str, _: Path | None) -> AsyncIterator[bool | str | None]:
        self.asked.append(address)
        answer = self._answers[address]
        if answer == HANGS:
            await trio.sleep_forever()
        if answer == IS_GONE:
            raise BadSource("no broker answers")
        yield answer


async def said(answer: bool | None) -> bool | None:
    return answer


@pytest.mark.parametrize(
    ("answers", "found", "asked", "seconds"),
    [
        ((), None, 0, 0.0),
        ((True, HANGS), True, 1, 0.0),
        ((False, True), False, 1, 0.0),
        ((None, IS_GONE, True), True, 3, 0.0),
        ((HANGS, False), False, 2, 1.0),
        ((HANGS, HANGS, True), True, 3, 2.0),
        ((HANGS, HANGS, HANGS, True), None, 3, 3.0),
    ],
)
async def test_a_gateway_that_hangs_does_not_hide_the_others(
    answers: tuple[bool | str | None, ...],
    found: bool | None,
    asked: int,
    seconds: float,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateways = Gateways(*answers)
    monkeypatch.setattr(carrying, "opened_source", gateways.opened)
    monkeypatch.setattr(carrying, "has_authorizer", said)
    begun = trio.current_time()
    assert await carrying.authorizer_here(gateways.state) is found
    assert gateways.asked == [f"g{at}:9092" for at in range(asked)]
    assert trio.current_time() - begun == pytest.approx(seconds)
