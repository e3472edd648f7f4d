"""Checks whether a gateway answers at the addresses that it advertises to clients.

The question is ApiVersions v0, the first request of clients, whose body is empty.  Any listener
answers it before authentication, unless it expects a proxy; one with TLS answers an alert.  So an
answer proves that a gateway runs there.  Silence proves nothing, since only clients may be able to
reach the address.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

import trio

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENERS
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_protocol.apis import ApiKey
from tidegate_runtime.http.client import Connect

from ..network.tls_transport import PLAINTEXT_REFUSED
from .peers import Dial

# A gateway that is too busy to answer in this time should not get more clients.
ANSWER_SECONDS: Final = 3.0
MAX_ANSWER_BYTES: Final = 1 << 16
PROBE: Final = b"tidegate-neighbour"
"""The client id."""
_CORRELATION: Final = 1
_HEADER: Final = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, _CORRELATION, len(PROBE)) + PROBE
_QUESTION: Final = struct.pack(">i", len(_HEADER)) + _HEADER
_ANSWER_BEGINS: Final = struct.Struct(">ii")


class GatewaysRun(Exception):
    """Gateways answer that must be stopped first.  The text names them and says what to do."""


class Answering(NamedTuple):
    """A gateway that answers, and its address."""

    gateway: Gateway
    endpoint: Endpoint


async def is_answered(connect: Connect) -> bool:
    """Return whether the other end answers within ANSWER_SECONDS."""
    try:
        with trio.fail_after(ANSWER_SECONDS):
            stream = await connect()
            async with stream:
                return await _asked(stream)
    except (OSError, ValueError, trio.BrokenResourceError, trio.TooSlowError):
        return False  # the reason for the silence does not matter


async def those_that_answer(gateways: Iterable[Gateway], dial: Dial) -> list[Answering]:
    """Ask all gateways at once, each at all of its addresses for clients.

    Return the gateways that answer, each with its first address that answered.  Takes
    ANSWER_SECONDS at most.
    """
    asked = [
        Answering(gateway, endpoint)
        for gateway in gateways
        for endpoint in gateway.endpoints
        if endpoint.listener not in PEER_LISTENERS
    ]
    heard: set[int] = set()

    async def ask(number: int, endpoint: Endpoint) -> None:
        if await is_answered(dial(endpoint.host, endpoint.port)):
            heard.add(number)

    async with trio.open_nursery() as nursery:
        for number, each in enumerate(asked):
            nursery.start_soon(ask, number, each.endpoint)
    first: dict[int, Answering] = {}
    for number in sorted(heard):
        first.setdefault(asked[number].gateway.incarnation, asked[number])
    return list(first.values())


async def _asked(stream: trio.abc.Stream) -> bool:
    await stream.send_all(_QUESTION)
    begin = await _receive(stream, len(PLAINTEXT_REFUSED))
    if begin == PLAINTEXT_REFUSED:
        return True
    begin += await _receive(stream, _ANSWER_BEGINS.size - len(begin))
    size_bytes, correlation = _ANSWER_BEGINS.unpack(begin)
    if correlation != _CORRELATION or not 0 < size_bytes <= MAX_ANSWER_BYTES:
        return False
    # Read the answer to its end: to close before would reset the connection.
    await _receive(stream, size_bytes - 4)
    return True


async def _receive(stream: trio.abc.Stream, size_bytes: int) -> bytes:
    """Return size_bytes bytes; raise BrokenResourceError if the stream ends before."""
    received = b""
    while len(received) < size_bytes:
        part = await stream.receive_some(size_bytes - len(received))
        if not part:
            raise trio.BrokenResourceError("it hung up")
        received += part
    return received
