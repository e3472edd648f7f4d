"""A broker in memory that answers as a test says, for tests of our client of classic clusters."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio
from trio.testing import memory_stream_pair

from tests.worlds.wire_client import KEYS, module_of
from tidegate_coordination.client.properties.client import Address, ClientProperties
from tidegate_protocol.apis import APIS
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_request_header, response_header
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import metadata as me

NAMES = {key: facts.name for key, facts in APIS.items()}
ADDRESS = Address("broker-1", 9092)
PROPERTIES = ClientProperties((ADDRESS,), client_id="link")


class HangUp(Exception):
    """Raised by an answer: the broker closes the connection."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that arrived.  connection: the connection's number, from 1."""

    name: str
    version: int
    request: Any
    client_id: str | None = None
    connection: int = 1


Answer = Callable[[Asked], Any]
"""Returns a response, None for no answer at all, or bytes to send as they are; or raises HangUp.

May be async.
"""


@dataclass(slots=True)
class ScriptedBroker:
    """versions: name -> (first, last); APIs that are not named are not served."""

    nursery: trio.Nursery
    answers: dict[str, Answer] = field(default_factory=dict)
    versions: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: {
            facts.name: (facts.min_version, facts.max_version) for facts in APIS.values()
        }
    )
    is_up: bool = True
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    streams: list[trio.abc.Stream] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        """See classic.dialling.Dial."""
        await trio.lowlevel.checkpoint()
        if not self.is_up:
            raise ConnectionRefusedError(111, "Connection refused")
        client, plain = memory_stream_pair()
        server: trio.abc.Stream = plain
        if self.tls is not None:
            server = trio.SSLStream(plain, self.tls, server_side=True, https_compatible=True)
        self.connections += 1
        self.streams.append(server)
        self.nursery.start_soon(self.serve, server, self.connections)
        return client

    def names_asked(self) -> list[str]:
        """Return the APIs of the requests that arrived."""
        return [each.name for each in self.asked]

    async def serve(self, stream: trio.abc.Stream, number: int) -> None:
        """Answer until either side closes."""
        received = bytearray()
        try:
            while data := await stream.receive_some():
                received += data
                while len(received) >= 4:
                    end = 4 + int.from_bytes(received[:4], "big")
                    if len(received) < end:
                        break
                    request = bytes(received[4:end])
                    del received[:end]
                    await self._answer(stream, memoryview(request), number)
        except (HangUp, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.abc.Stream, data: memoryview, number: int) -> None:
        header = decode_request_header(data)
        name, version = NAMES[header.api_key], header.api_version
        first, last = self.versions.get(name, (1, 0))
        if name == "ApiVersions" and not first <= version <= last:
            self.asked.append(Asked(name, version, None, header.client_id, number))
            return await self._send(stream, header.correlation_id, name, 0, self.announced(35))
        assert first <= version <= last, f"{name} {version}"
        request = module_of(name).decode_request(data[header.body_position :], version)
        asked = Asked(name, version, request, header.client_id, number)
        self.asked.append(asked)
        default = self.announced() if name == "ApiVersions" else None
        answer = self.answers[name](asked) if name in self.answers else default
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, bytes):
            await stream.send_all(answer)
        elif answer is not None:
            await self._send(stream, header.correlation_id, name, version, answer)

    async def _send(
        self, stream: trio.abc.Stream, number: int, name: str, version: int, answer: Any
    ) -> None:
        await stream.send_all(answer_frame(number, name, version, answer))

    def announced(self, code: int = 0) -> av.ApiVersionsResponse:
        """Return the answer to ApiVersions."""
        rows = [av.ApiVersion(KEYS[name], *each) for name, each in self.versions.items()]
        return av.ApiVersionsResponse(code, rows)


def answer_frame(number: int, name: str, version: int, answer: Any) -> bytes:
    """Return a whole answer: length, header, body."""
    body = module_of(name).encode_response(answer, version)
    joined = b"".join(body) if isinstance(body, list) else bytes(body)
    return frame(response_header(number, KEYS[name], version) + joined)


class ScriptedCluster:
    """Brokers 1 to count, at broker-1:9092 and so on; all answer the same Metadata.

    leaders: topic -> leader of each partition.  hosts: the host of each broker in Metadata.
    """

    def __init__(self, nursery: trio.Nursery, count: int = 3) -> None:
        self.cluster_id: str | None = "cluster-a"
        self.controller_id = 2
        self.leaders: dict[str, list[int]] = {"orders": [1, 2, 3]}
        self.epochs: dict[str, int] = {}
        self.brokers = {number: ScriptedBroker(nursery) for number in range(1, count + 1)}
        self.hosts = {number: f"broker-{number}" for number in self.brokers}
        self.dialled: list[str] = []
        for each in self.brokers.values():
            each.answers["Metadata"] = self.metadata

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        """See classic.dialling.Dial."""
        self.dialled.append(host)
        number = int(host.removeprefix("broker-"))
        if number not in self.brokers:
            raise OSError(113, "No route to host")
        return await self.brokers[number].dial(host, port)

    def metadata(self, asked: Asked) -> me.MetadataResponse:
        """Return the brokers' answer to Metadata."""
        wanted = asked.request.topics
        names = list(self.leaders) if wanted is None else [each.name for each in wanted]
        return me.MetadataResponse(
            brokers=[
                me.MetadataResponseBroker(number, self.hosts[number], 9092)
                for number in self.brokers
            ],
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            topics=[self._topic(each) for each in names],
        )

    def _topic(self, name: str) -> me.MetadataResponseTopic:
        if name not in self.leaders:
            return me.MetadataResponseTopic(3, name)
        partitions = [
            me.MetadataResponsePartition(
                5 if leader < 0 else 0, index, leader, self.epochs.get(name, 0), [leader], [leader]
            )
            for index, leader in enumerate(self.leaders[name])
        ]
        return me.MetadataResponseTopic(0, name, name.encode().ljust(16), partitions=partitions)
