"""Whether a gateway answers: it is asked what clients ask first, at the addresses they are told.

The question is ApiVersions v0, whose body is empty: any listener answers it before it knows who
asks, unless it is behind a proxy.  So an answer proves that something runs there; silence proves
nothing, since the address may be one that only clients can reach.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

import trio

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENERS
from tidegate_coordination.state.gateways import Gateway
from tidegate_protocol.apis import ApiKey
from tidegate_runtime.http.client import Connect

from .peers import Dial

# A gateway that is busy for longer is left alone with good reason.
ANSWER_SECONDS: Final = 3.0
MAX_ANSWER_BYTES: Final = 1 << 16
_CLIENT_ID: Final = b"tidegate-neighbour"
_CORRELATION: Final = 1
_HEADER: Final = (
    struct.pack(">hhih", ApiKey.API_VERSIONS, 0, _CORRELATION, len(_CLIENT_ID)) + _CLIENT_ID
)
_QUESTION: Final = struct.pack(">i", len(_HEADER)) + _HEADER
_ANSWER_BEGINS: Final = struct.Struct(">ii")


class GatewaysRun(Exception):
    """Gateways answer that must not run now.  The text says which, and what to do."""


class Answering(NamedTuple):
    """A gateway that answers, and where."""

    gateway: Gateway
    endpoint: Endpoint


async def is_answered(connect: Connect) -> bool:
    """Tell whether whoever is connected to answers, in time."""
    try:
        with trio.fail_after(ANSWER_SECONDS):
            stream = await connect()
            async with stream:
                return await _asked(stream)
    except (OSError, ValueError, trio.BrokenResourceError, trio.TooSlowError):
        return False  # what it takes for silence is all that is asked


async def those_that_answer(gateways: Iterable[Gateway], dial: Dial) -> list[Answering]:
    """Ask all at once, each at all addresses for clients; return who answers, and where first.

    That takes ANSWER_SECONDS at most.
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
    size_bytes, correlation = _ANSWER_BEGINS.unpack(await _receive(stream, _ANSWER_BEGINS.size))
    if correlation != _CORRELATION or not 0 < size_bytes <= MAX_ANSWER_BYTES:
        return False
    # To its end: who closes before resets the connection.
    await _receive(stream, size_bytes - 4)
    return True


async def _receive(stream: trio.abc.Stream, size_bytes: int) -> bytes:
    """Receive so many bytes; raise BrokenResourceError if there are fewer."""
    received = b""
    while len(received) < size_bytes:
        part = await stream.receive_some(size_bytes - len(received))
        if not part:
            raise trio.BrokenResourceError("it hung up")
        received += part
    return received
