"""A gateway that answers at any address is found; a silent one delays no other."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import ONLY_FORWARDS_LISTENER, PEER_LISTENER
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.network.tls_transport import PLAINTEXT_REFUSED
from tidegate_gateway.peers.answering import ANSWER_SECONDS, those_that_answer


def gateway(number: int, *ports: int, peer: int = 0, peer_listener: str = PEER_LISTENER) -> Gateway:
    endpoints = tuple(Endpoint(f"L{port}", "host", port) for port in ports)
    if peer:
        endpoints = (Endpoint(peer_listener, "host", peer), *endpoints)
    return Gateway(number, number, f"k{number}", "", endpoints, "0", False, 0, 0)


class Street:
    """Addresses of gateways.

    answering: ports that answer.  refusing: ports that answer as a listener with TLS does.  Any
    other port takes the connection and is silent.
    """

    def __init__(self, *answering: int, refusing: tuple[int, ...] = ()) -> None:
        self.answering = answering
        self.refusing = refusing
        self.asked: list[int] = []
        self._open: list[trio.abc.Stream] = []  # keeps the connections open

    def dial(self, _: str, port: int) -> Callable[[], Awaitable[trio.abc.Stream]]:
        async def connect() -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            self.asked.append(port)
            ours, theirs = trio.testing.memory_stream_pair()
            if port in self.answering:
                await theirs.send_all(struct.pack(">iihi", 10, 1, 0, 0))
            if port in self.refusing:
                await theirs.send_all(PLAINTEXT_REFUSED)
                await theirs.send_eof()
            self._open.append(theirs)
            return ours

        return connect

    async def found(self, *gateways: Gateway) -> list[tuple[int, int]]:
        found = await those_that_answer(gateways, self.dial)
        return [(each.gateway.node_id, each.endpoint.port) for each in found]


async def test_each_is_named_once_by_the_first_address_that_answers(
    autojump_clock: MockClock,
) -> None:
    street = Street(11, 20, 21)
    asked = gateway(1, 10, 11), gateway(2, 20, 21), gateway(3, 30), gateway(4)
    assert await street.found(*asked) == [(1, 11), (2, 20)]


async def test_a_listener_with_tls_that_refuses_the_question_answers_it(
    autojump_clock: MockClock,
) -> None:
    street = Street(refusing=(11,))
    assert await street.found(gateway(1, 10, 11)) == [(1, 11)]


async def test_all_are_asked_together(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    many = [gateway(number, number) for number in range(1, 100)]
    assert await Street(50).found(*many) == [(50, 50)]
    assert trio.current_time() - began <= ANSWER_SECONDS


@pytest.mark.parametrize("name", [PEER_LISTENER, ONLY_FORWARDS_LISTENER])
async def test_a_peer_listener_speaks_no_kafka(name: str, autojump_clock: MockClock) -> None:
    street = Street(10)
    assert await street.found(gateway(1, 10, peer=9, peer_listener=name)) == [(1, 10)]
    assert street.asked == [10]
