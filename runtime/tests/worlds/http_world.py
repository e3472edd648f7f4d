"""An HTTP server in memory, for the tests of HTTP and of its users."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_pair

from tests.worlds.doors import NO_HOSTS, alone
from tidegate_runtime.http.client import HttpClient
from tidegate_runtime.http.server import Handle, serve_http


@dataclass(slots=True)
class MemoryServer:
    """`connect` opens one more connection to it; `streams` are the client's ends of all so far."""

    nursery: trio.Nursery
    handle: Handle
    max_body_bytes: int = 1000
    streams: list[trio.StapledStream[MemorySendStream, MemoryReceiveStream]] = field(
        default_factory=list
    )
    is_down: bool = False

    async def connect(self) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if self.is_down:
            raise ConnectionRefusedError("no server listens")
        ours, theirs = memory_stream_pair()
        self.streams.append(ours)
        self.nursery.start_soon(self._serve, theirs)
        return ours

    async def _serve(self, stream: trio.abc.Stream) -> None:
        await serve_http(
            stream, self.handle, alone(), hosts=NO_HOSTS, max_body_bytes=self.max_body_bytes
        )

    def client(self, max_connections: int = 8) -> HttpClient:
        return HttpClient(self.connect, host="memory", max_connections=max_connections)


@asynccontextmanager
async def memory_server(
    handle: Handle, *, max_body_bytes: int = 1000
) -> AsyncIterator[MemoryServer]:
    async with trio.open_nursery() as nursery:
        yield MemoryServer(nursery, handle, max_body_bytes)
        nursery.cancel_scope.cancel()
