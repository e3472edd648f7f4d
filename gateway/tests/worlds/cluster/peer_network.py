"""The network between gateways that ask each other, in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import trio
from trio.testing import memory_stream_pair

from tests.worlds.doors import NO_HOSTS, alone
from tidegate_coordination.forwarding.messages import MAX_QUESTION_BYTES
from tidegate_gateway.peers.peer_service import PeerService
from tidegate_runtime.http.client import Connect
from tidegate_runtime.http.server import serve_http
from tidegate_runtime.http.values import HttpAnswer, HttpRequest


@dataclass(slots=True)
class Network:
    """The network between the gateways.

    down: hosts that refuse connections.  silent: hosts that accept connections and send nothing.
    lying: hosts whose answers are damaged.  short: hosts whose answers lack a byte.  seconds: how
    long every answer takes.  statuses: how often each host answered with each status.
    """

    nursery: trio.Nursery
    services: dict[str, PeerService] = field(default_factory=dict[str, PeerService])
    down: set[str] = field(default_factory=set[str])
    silent: set[str] = field(default_factory=set[str])
    lying: set[str] = field(default_factory=set[str])
    short: set[str] = field(default_factory=set[str])
    seconds: float = 0.0
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    def dial(self, host: str, port: int) -> Connect:
        async def connect() -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            if host in self.down:
                raise ConnectionRefusedError("nobody listens")
            ours, theirs = memory_stream_pair()
            self.nursery.start_soon(self._serve, host, theirs)
            return ours

        return connect

    async def _serve(self, host: str, stream: trio.abc.Stream) -> None:
        async def handle(request: HttpRequest) -> HttpAnswer:
            if host in self.silent:
                await trio.sleep_forever()
            await trio.sleep(self.seconds)
            answer = await self.services[host].handle(request)
            self.statuses[host, answer.status] += 1
            if answer.status == 200 and host in self.lying:
                return replace(answer, body=bytes(each ^ 0x55 for each in answer.body))
            if answer.status == 200 and host in self.short:
                return replace(answer, body=answer.body[:-1])
            return answer

        await serve_http(stream, handle, alone(), hosts=NO_HOSTS, max_body_bytes=MAX_QUESTION_BYTES)
