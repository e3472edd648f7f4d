"""A small Kafka client of our own: one connection at a time, any number of requests on it.

It follows the protocol alone and trusts no answer.  It raises on any answer that a real client
could not process, and the error ends the run.
"""

from __future__ import annotations

from collections import deque
from types import ModuleType
from typing import Any, Final

import trio

from tidegate_gateway.network.memory_transport import MemoryTransport
from tidegate_gateway.network.transport import TransportBroken
from tidegate_protocol.apis import APIS
from tidegate_protocol.frames import split_frames
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages import api_versions, metadata

from ..world.answer_tally import AnswerTally
from ..world.world import NotReachable, World

_MAX_FRAME_BYTES: Final = 64 << 20
_KEYS = {facts.name: key for key, facts in APIS.items()}
_METADATA_VERSION: Final = 12
_FOLLOWS_SHARE: Final = 0.5
_LATE_LEISURE: Final = 4.0


class Disconnected(Exception):
    """The connection is closed; the outcome of its open requests is unknown."""


class ProtocolBroken(Exception):
    """The gateway sent an answer that no Kafka broker may send."""


class Reply:
    """The future answer of a request."""

    def __init__(self, messages: ModuleType, api_key: int, version: int, number: int) -> None:
        self.messages = messages
        self.api_key = api_key
        self.version = version
        self.number = number
        self._done = trio.Event()
        self._response: Any = None
        self._is_broken = False

    def settle(self, frame: memoryview) -> Any:
        """Take and return the answer."""
        number, position = decode_response_header(frame, self.api_key, self.version)
        if number != self.number:
            raise ProtocolBroken(f"answer {number} arrived where {self.number} was next")
        self._response = self.messages.decode_response(frame[position:], self.version)
        self._done.set()
        return self._response

    def break_off(self) -> None:
        """Fail the request: its connection is closed."""
        self._is_broken = True
        self._done.set()

    async def wait(self, timeout_seconds: float) -> Any:
        """Return the response.

        Raises:
          Disconnected: no answer arrived in time.
        """
        with trio.move_on_after(timeout_seconds):
            await self._done.wait()
        if self._is_broken or not self._done.is_set():
            raise Disconnected
        return self._response


class ClientConnection:
    """One connection; `run` receives its answers, in the order of requests.

    answers: counts the answers, if given.
    """

    def __init__(
        self, transport: MemoryTransport, client_id: str, answers: AnswerTally | None = None
    ) -> None:
        self.is_open = True
        self._answers = answers
        self._transport = transport
        self._client_id = client_id
        self._waiting: deque[Reply] = deque()
        self._number = 0

    async def run(self) -> None:
        """Receive answers until either side closes."""
        received = bytearray()
        chunk = memoryview(bytearray(1 << 16))
        try:
            while self.is_open:
                await self._transport.wait_receivable()
                size = self._transport.receive_nowait(chunk)
                if size == 0:
                    break
                received += chunk[: size or 0]
                self._take_frames(received)
        except TransportBroken:
            pass
        finally:
            self.close()

    def _take_frames(self, received: bytearray) -> None:
        data = memoryview(bytes(received))
        frames = split_frames(data, max_frame_bytes=_MAX_FRAME_BYTES)
        for start, end in frames.whole:
            if not self._waiting:
                raise ProtocolBroken("an answer arrived without a request")
            reply = self._waiting.popleft()
            response = reply.settle(data[start:end])
            if self._answers is not None:
                self._answers.note(reply.api_key, response)
        del received[: frames.rest_position]

    def close(self) -> None:
        """Close the connection and fail all open requests on it."""
        self.is_open = False
        self._transport.close()
        while self._waiting:
            self._waiting.popleft().break_off()

    async def send(
        self, name: str, messages: ModuleType, version: int, request: Any, *, answered: bool = True
    ) -> Reply:
        """Send a request.

        Raises:
          Disconnected: the gateway may have received it or not.
        """
        key = _KEYS[name]
        self._number += 1
        head = encode_request_header(key, version, self._number, client_id=self._client_id)
        body = messages.encode_request(request, version)
        data = memoryview((len(head) + len(body)).to_bytes(4, "big") + head + body)
        reply = Reply(messages, key, version, self._number)
        if answered:
            self._waiting.append(reply)
        try:
            while data:
                data = data[self._transport.send_nowait([data]) :]
                if data:
                    await self._transport.wait_sendable()
        except TransportBroken as error:
            self.close()
            raise Disconnected from error
        return reply


class Client:
    """A client process: it chooses a gateway, and another gateway after a failure.

    zone: the client's zone, "" if the client does not know it.  A client with a zone names the zone
    in its client id or, when it reads, as its rack.  Now and then such a client asks for the
    leaders and connects to one of them.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = world.rng(f"client {name}")
        self.zone = world.plan.zones.of_client(name)
        self.client_id = name
        if self.zone and self.rng.random() < _FOLLOWS_SHARE:
            self.client_id = f"{name},zone={self.zone}"
        self.link = 0  # the number of the last connection
        self.leisure = 1.0  # the factor of its pauses
        self._connection: ClientConnection | None = None
        self._node_id = 0
        self._wish: int | None = None

    @property
    def node_id(self) -> int:
        """The gateway of the last connection."""
        return self._node_id

    @property
    def is_connected(self) -> bool:
        """Return whether the last connection is still open."""
        return self._connection is not None and self._connection.is_open

    async def connection(self, node_id: int | None = None) -> ClientConnection:
        """Return an open connection, to that node or to any.

        Raises:
          Disconnected: no connection could be opened.
        """
        last = self._connection
        if last is not None and last.is_open and node_id in (None, self._node_id):
            return last
        self.close()
        node_id, self._wish = self._wish if node_id is None else node_id, None
        if node_id is None:
            node_id = self.rng.choice(sorted(self.world.nodes))
            connection = await self._connect(node_id)
            return await self._follow_leader(connection) if self.zone else connection
        return await self._connect(node_id)

    async def _connect(self, node_id: int) -> ClientConnection:
        try:
            node = self.world.nodes[node_id]
            transport, answers = node.connect(self.name), node.answers
        except (NotReachable, KeyError) as error:
            await trio.sleep(self.rng.random() * 0.5)
            raise Disconnected from error
        self._node_id = node_id
        self.link += 1
        self._connection = ClientConnection(transport, self.client_id, answers)
        self.world.nursery.start_soon(self._connection.run)
        await self._greet(self._connection)
        return self._connection

    async def _follow_leader(self, connection: ClientConnection) -> ClientConnection:
        """Connect, half of the time, to the gateway that metadata names as leader."""
        if self.rng.random() >= _FOLLOWS_SHARE:
            return connection
        request = metadata.MetadataRequest(None, allow_auto_topic_creation=False)
        reply = await connection.send("Metadata", metadata, _METADATA_VERSION, request)
        answer: metadata.MetadataResponse = await reply.wait(10.0)
        leaders = {each.leader_id for topic in answer.topics for each in topic.partitions}
        known = sorted(leaders & self.world.nodes.keys())
        wanted = self.rng.choice(known) if known else self._node_id
        if wanted == self._node_id:
            return connection
        self.close()
        return await self._connect(wanted)

    def go_to(self, node_id: int) -> None:
        """Close the connection and choose this gateway for the next one."""
        self.close()
        self._wish = node_id

    async def _greet(self, connection: ClientConnection) -> None:
        """Ask for the versions, as every client does first."""
        request = api_versions.ApiVersionsRequest("tidegate-simulation", "0")
        try:
            reply = await connection.send("ApiVersions", api_versions, 3, request)
            response = await reply.wait(10.0)
        except Disconnected:
            self.close()
            raise
        if response.error_code or not response.api_keys:
            raise ProtocolBroken(f"ApiVersions: {response}")

    async def call(
        self,
        name: str,
        messages: ModuleType,
        version: int,
        request: Any,
        *,
        node_id: int | None = None,
        timeout_seconds: float = 20.0,
    ) -> Any:
        """Send a request and return its response.

        Raises:
          Disconnected: the outcome is unknown.
        """
        connection = await self.connection(node_id)
        reply = await connection.send(name, messages, version, request)
        try:
            response = await reply.wait(timeout_seconds)
        except Disconnected:
            connection.close()
            raise
        if self.zone:
            is_near = self.world.nodes[self._node_id].zone == self.zone
            self.world.strikes.count("zone.near" if is_near else "zone.across")
        return response

    async def insist(self, name: str, messages: ModuleType, version: int, request: Any) -> Any:
        """Repeat a request until a gateway answers; return the answer.

        The request may take effect several times.
        """
        while True:
            try:
                return await self.call(name, messages, version, request)
            except Disconnected:
                await self.pause(1.0)

    async def pause(self, seconds: float) -> None:
        """Wait for up to that many seconds; longer in a run that is prolonged only for a fault."""
        leisure = _LATE_LEISURE if self.world.late.is_set() else self.leisure
        await trio.sleep(self.rng.random() * seconds * leisure)

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
