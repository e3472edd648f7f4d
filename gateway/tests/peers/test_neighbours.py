"""Gateways that do not answer become absent, until they answer again."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tidegate_coordination.events.cluster import (
    Endpoint,
    GatewayDraining,
    GatewayExpired,
    GatewayRegistered,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic
from tidegate_gateway.peers.answering import ANSWER_SECONDS
from tidegate_gateway.peers.neighbours import LOOK_SECONDS, Neighbours
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.zones.cluster_view import ClusterView
from tidegate_gateway.zones.zone_finder import ZoneFinder
from tidegate_gateway.zones.zone_settings import zone_maps
from tidegate_protocol.apis import ApiKey

OWN = 1
ROUND = 2 * LOOK_SECONDS + ANSWER_SECONDS


class Town:
    """Gateways 1, 2 and 3.  does: how they treat a connection; any other word: they close it."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.does = {2: "answer", 3: "answer"}
        self.asked: list[int] = []
        for number in (OWN, 2, 3):
            self.register(number, number)
        self.neighbours = Neighbours(self.state.gateways, OWN, ["A"], self._dial)
        zones = ZoneFinder(zone_maps(BrokerSettings()), self.state.gateways)
        self.view = ClusterView(self.state, zones, lambda: self.neighbours.absent)

    def register(
        self, incarnation: int, node_id: int, port: int = 0, *, supersedes: int = 0
    ) -> None:
        endpoints = (Endpoint("A", "host", port or node_id),)
        self.state.gateways.next_incarnation = incarnation
        event = GatewayRegistered(
            incarnation, node_id, f"k{node_id}", "", endpoints, "0", supersedes
        )
        self.state.gateways.fold_registered(event, 0)

    def restart(self, node_id: int, incarnation: int, port: int = 0) -> None:
        last = self.state.gateways.by_node_id(node_id)
        assert last is not None
        self.register(incarnation, node_id, port, supersedes=last.incarnation)

    async def second_does(self, what: str, seconds: float = ROUND) -> None:
        """Change the behaviour of gateway 2, and let `seconds` pass."""
        self.does[2] = what
        await trio.sleep(seconds)

    @property
    def leaders(self) -> tuple[int, ...]:
        return self.view.of("A").leaders

    def _dial(self, host: str, port: int) -> Callable[[], Awaitable[trio.abc.Stream]]:
        async def connect() -> trio.abc.Stream:
            self.asked.append(port)
            if self.does[port] == "refuse":
                raise ConnectionRefusedError
            if self.does[port] == "have no name":
                raise UnicodeError("label empty or too long")  # as for the name "gw..example"
            ours, theirs = trio.testing.memory_stream_pair()
            self._nursery.start_soon(self._serve, theirs, port)
            return ours

        return connect

    async def _serve(self, stream: trio.abc.Stream, port: int) -> None:
        async with stream:
            while self.does[port] == "not accept yet":  # noqa: ASYNC110 - a test sets it
                await trio.sleep(LOOK_SECONDS / 8)
            what = self.does[port]
            (size,) = struct.unpack(">i", await stream.receive_some(4))
            head = await stream.receive_some(10)
            key, version, number, length = struct.unpack(">hhih", head)
            assert (key, version, length) == (
                ApiKey.API_VERSIONS,
                0,
                len(await stream.receive_some(size - 10)),
            )
            if what == "wait":
                await trio.sleep(2 * ANSWER_SECONDS)
            if what == "answer":
                with suppress(trio.BrokenResourceError):  # the caller may have timed out
                    for byte in struct.pack(">iih", 6, number, 0):
                        await stream.send_all(bytes([byte]))
            if what == "babble":
                await stream.send_all(b"HTTP/1.1 400 ")

    @asynccontextmanager
    async def live(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.neighbours.run)
            await trio.sleep(ROUND)
            yield
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("what", ["refuse", "wait", "hang up", "babble", "have no name"])
async def test_a_gateway_that_stops_answering_is_absent_until_it_answers(
    what: str, autojump_clock: MockClock
) -> None:
    town = Town()
    async with town.live():
        assert town.leaders == (1, 2, 3)
        await town.second_does(what)
        assert list(town.leaders) == [1, 3]
        await town.second_does("answer")
        assert town.leaders == (1, 2, 3)


async def test_a_refusal_is_noticed_within_two_seconds(autojump_clock: MockClock) -> None:
    town = Town()
    async with town.live():
        town.does[3] = "refuse"
        await trio.sleep(2 * LOOK_SECONDS)
        assert town.leaders == (1, 2)


async def test_a_silent_gateway_delays_no_probe_of_another(autojump_clock: MockClock) -> None:
    town = Town()
    async with town.live():
        await town.second_does("wait", 1.5 * LOOK_SECONDS)
        town.does[3] = "refuse"
        await trio.sleep(1.5 * LOOK_SECONDS)
        assert 3 not in town.leaders


async def test_a_gateway_that_never_answered_is_not_absent(autojump_clock: MockClock) -> None:
    town = Town()
    town.does[2] = "refuse"
    async with town.live():
        assert town.leaders == (1, 2, 3)


async def test_a_lone_gateway_names_itself(autojump_clock: MockClock) -> None:
    town = Town()
    async with town.live():
        town.does = {2: "refuse", 3: "refuse"}
        await trio.sleep(ROUND)
        assert town.leaders == (1,)


async def test_when_all_others_drain_the_absent_ones_lead(
    autojump_clock: MockClock,
) -> None:
    town = Town()
    async with town.live():
        town.does = {2: "refuse", 3: "refuse"}
        await trio.sleep(ROUND)
        town.state.gateways.fold_draining(GatewayDraining(OWN))
        assert town.leaders == (2, 3)


async def test_a_gateway_that_dies_soon_after_each_start_is_absent(
    autojump_clock: MockClock,
) -> None:
    town = Town()
    async with town.live():
        town.does[2] = "refuse"
        seen = list[int]()
        for life in range(10, 20):
            town.restart(2, life)
            await trio.sleep(1.5 * LOOK_SECONDS)
            seen.append(len(town.leaders))
        assert seen[0] == 3
        assert seen[-5:] == [2] * 5


@pytest.mark.parametrize("what", ["refuse", "not accept yet"])
async def test_a_gateway_that_serves_soon_after_it_registered_is_never_absent(
    what: str, autojump_clock: MockClock
) -> None:
    town = Town()
    async with town.live():
        town.does[2] = what
        town.restart(2, 4)
        await trio.sleep(0.8 * ANSWER_SECONDS)
        await town.second_does("answer")
        assert town.leaders == (1, 2, 3)
        assert not town.neighbours.changes


async def test_a_gateway_that_is_slow_to_serve_after_an_absence_is_absent_once(
    autojump_clock: MockClock,
) -> None:
    town = Town()
    async with town.live():
        await town.second_does("refuse")
        town.restart(2, 4)
        await trio.sleep(ROUND)
        assert list(town.leaders) == [1, 3]
        await town.second_does("answer")
        assert town.leaders == (1, 2, 3)
        # The refusal of the old process, that of the new one, and its answer.
        assert town.neighbours.changes == 3


async def test_after_a_while_without_the_gateway_its_next_life_has_patience(
    autojump_clock: MockClock,
) -> None:
    town = Town()
    async with town.live():
        await town.second_does("refuse")
        town.state.gateways.fold_expired(GatewayExpired(2))
        await trio.sleep(ROUND)
        town.register(4, 2)
        await trio.sleep(0.8 * ANSWER_SECONDS)
        assert town.leaders == (1, 2, 3)
        await trio.sleep(ROUND)
        assert list(town.leaders) == [1, 3]


async def test_a_gateway_that_never_answered_at_its_new_address_is_not_absent(
    autojump_clock: MockClock,
) -> None:
    town = Town()
    async with town.live():
        town.does[7] = "refuse"
        town.restart(2, 4, port=7)
        await trio.sleep(2 * ROUND)
        assert town.leaders == (1, 2, 3)


async def test_a_missed_probe_of_an_old_incarnation_does_not_count_for_the_next(
    autojump_clock: MockClock,
) -> None:
    town = Town()
    async with town.live():
        await town.second_does("not accept yet", 0.9 * ANSWER_SECONDS)
        town.restart(2, 4)
        await trio.sleep(0.8 * ANSWER_SECONDS)
        await town.second_does("answer")
        assert not town.neighbours.changes


async def test_a_gateway_probes_neither_itself_nor_draining_gateways(
    autojump_clock: MockClock,
) -> None:
    town = Town()
    async with town.live():
        town.state.gateways.fold_draining(GatewayDraining(3))
        await trio.sleep(ROUND)
        town.asked.clear()
        await trio.sleep(ROUND)
        assert set(town.asked) == {2}


async def test_an_absent_gateway_leads_nothing_but_stays_a_replica(
    autojump_clock: MockClock,
) -> None:
    """Otherwise consumers would rebalance, as the zones of replicas would change (KIP-881)."""
    town = Town()
    topic = Topic(bytes(16), "orders", list(range(12)), 3, {})
    async with town.live():
        await town.second_does("refuse")
        view = town.view.of("A")
        placements = view.placements(topic)
    assert {each.leader for each in placements} == {1, 3}
    assert all(sorted(each.replicas) == [1, 2, 3] for each in placements)
    assert [each.node_id for each in view.nodes] == [1, 2, 3]
