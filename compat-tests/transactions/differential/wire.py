"""One connection to a broker, by our own codecs, for requests that no client library would send."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

import trio

from tidegate_protocol.apis import APIS
from tidegate_protocol.frames import LENGTH_BYTES, frame
from tidegate_protocol.headers import decode_response_header, encode_request_header

ANSWER_SECONDS: Final = 120.0
_CHUNK_BYTES: Final = 1 << 16
_KEYS: Final = {facts.name: key for key, facts in APIS.items()}
# The client id of all requests.
_CLIENT_ID: Final = "differential"


class Request(NamedTuple):
    """A request of an API, such as "EndTxn", in one of its versions."""

    api: str
    version: int
    body: Any


class ConnectionLost(Exception):
    """The broker closed the connection.  The script ends; the close is compared like an answer."""


class Caller(Protocol):
    """A connection for a player."""

    async def call(self, request: Request) -> Any:
        """Send a request and return its response."""
        ...

    async def call_all(self, requests: Sequence[Request]) -> list[Any]:
        """Send requests without waiting in between; return their responses."""
        ...


class Connection:
    """One connection that sends requests of our codecs, and reads their answers."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = bytearray()
        self._numbers = count(1)

    async def call(self, request: Request) -> Any:
        """Send a request and return its response.

        Raises:
          ConnectionLost: the broker closed the connection.
        """
        [answer] = await self.call_all([request])
        return answer

    async def call_all(self, requests: Sequence[Request]) -> list[Any]:
        """Send requests without waiting in between; return their responses.

        Raises:
          ConnectionLost: the broker closed the connection.
        """
        numbers = [next(self._numbers) for _ in requests]
        frames = map(_encoded, requests, numbers)
        try:
            with trio.fail_after(ANSWER_SECONDS):
                await self._stream.send_all(b"".join(frames))
                return [
                    _decoded(await self._receive(), request, number)
                    for request, number in zip(requests, numbers, strict=True)
                ]
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLost from error

    async def close(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def _receive(self) -> memoryview:
        size = int.from_bytes(await self._exactly(LENGTH_BYTES), "big")
        return memoryview(await self._exactly(size))

    async def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            chunk = await self._stream.receive_some(_CHUNK_BYTES)
            if not chunk:
                raise ConnectionLost
            self._received += chunk
        found = bytes(self._received[:size])
        del self._received[:size]
        return found


async def connect(bootstrap: str) -> Connection:
    """Open a connection to host:port."""
    host, port = bootstrap.rsplit(":", 1)
    return Connection(await trio.open_tcp_stream(host, int(port)))


def _encoded(request: Request, number: int) -> bytes:
    key = _KEYS[request.api]
    head = encode_request_header(key, request.version, number, client_id=_CLIENT_ID)
    return frame(head + _codec(request.api).encode_request(request.body, request.version))


def _decoded(answer: memoryview, request: Request, number: int) -> Any:
    key = _KEYS[request.api]
    found, position = decode_response_header(answer, key, request.version)
    if found != number:
        raise ConnectionLost(f"an answer to request {found}, not {number}")
    return _codec(request.api).decode_response(answer[position:], request.version)


def _codec(api: str) -> Any:
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in api)
    return import_module(f"tidegate_protocol.messages.{snake.lstrip('_')}")
