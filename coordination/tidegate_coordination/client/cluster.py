"""A classic Kafka cluster: which broker to ask, on which connection, and how often.

The cluster is found through bootstrap.servers, and again through them if no known broker can be
reached.  A broker gets one connection, and one more for each name that a caller chooses: a request
that waits long, such as a fetch of idle partitions, delays later requests on its connection.

If an error is retriable, a call is repeated within `Backoff.total_seconds`, provided that the
broker certainly did not act on the request, or that the request only reads.  A Produce of unknown
outcome is never repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.metadata import MetadataResponse

from .errors import BrokerUnreachable, ClassicError, Kind, Refused
from .login.logins import Logins
from .metadata import MIN_METADATA_VERSION, ClusterMetadata, metadata_request, updated
from .properties.client import Address, ClientProperties
from .retries import Backoff, Clock, code_to_repeat, codes_in, is_metadata_old, may_repeat
from .tokens.source import TokenSources
from .wire.connection import DEFAULT_MAX_ANSWER_BYTES, BrokerConnection, MakeRequest
from .wire.dialling import Dial
from .wire.pool import ConnectionPool

# Brokers that a refresh asks before it returns the last error: each may cost a set-up timeout.
MAX_ASKED: Final = 5

_T = TypeVar("_T")
_Find: TypeAlias = Callable[[], Awaitable[BrokerConnection]]


class ClassicCluster:
    """The brokers of one classic cluster, and this process's connections to them."""

    def __init__(
        self,
        nursery: trio.Nursery,
        dial: Dial,
        properties: ClientProperties,
        *,
        rng: Random,
        now: Clock = trio.current_time,
        backoff: Backoff | None = None,
        tokens: TokenSources | None = None,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        """
        Args:
          nursery: owns the tasks of all connections.
          rng: chooses the order of brokers and the jitter of pauses.
          tokens: the token sources of the link, if it has several such clusters.
          max_answer_bytes: see open_connection.
        """
        self.metadata = ClusterMetadata()
        self._properties = properties
        self._rng = rng
        self._now = now
        self._backoff = backoff or Backoff()
        self._logins = Logins(properties, tokens or TokenSources(rng))
        self._pool = ConnectionPool(
            nursery, dial, properties, logins=self._logins, max_answer_bytes=max_answer_bytes
        )

    @property
    def is_login_refused(self) -> bool:
        """Return whether the cluster, or a token endpoint, refused the last login."""
        return self._logins.is_refused

    # -- metadata ---------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None = None) -> ClusterMetadata:
        """Ask for the brokers and the named topics, or all topics if None; return what is known.

        A topic that does not exist has an error code there.

        Raises:
          ClassicError: no broker answered within the time for repeats, or one refused.
        """
        names = None if topics is None else list(topics)
        return await self._repeat("Metadata", lambda: self._refresh_once(names))

    async def _refresh_once(self, topics: Sequence[str] | None) -> ClusterMetadata:
        request = metadata_request(topics)

        async def ask(connection: BrokerConnection) -> MetadataResponse:
            answer: MetadataResponse = await connection.call(
                "Metadata", request, min_version=MIN_METADATA_VERSION
            )
            if answer.error_code:
                raise Refused(f"{connection.broker} refused Metadata", answer.error_code)
            if not answer.brokers:  # the broker has just started
                raise BrokerUnreachable(f"{connection.broker} knows no broker yet.")
            return answer

        answer = await self._ask_any(ask)
        self.metadata = updated(self.metadata, answer, is_whole=topics is None, now=self._now())
        self._pool.retire_all_but({each.address for each in self.metadata.brokers.values()})
        return self.metadata

    async def _ask_any(
        self, ask: Callable[[BrokerConnection], Awaitable[MetadataResponse]]
    ) -> MetadataResponse:
        """Return the first answer of the brokers, asked one after another."""
        failure: ClassicError = BrokerUnreachable("no broker is known.")
        for address in self._candidates():
            try:
                return await ask(await self._pool.get(address))
            except ClassicError as error:
                if error.kind is not Kind.RETRIABLE:
                    raise
                # A lost answer to Metadata must not make the outcome of another request unknown.
                failure = BrokerUnreachable(str(error))
        raise failure

    def _candidates(self) -> list[Address]:
        """Return brokers to ask: connected ones, other known ones, then the bootstrap servers."""
        known = [each.address for each in self.metadata.brokers.values()]
        bootstrap = list(self._properties.bootstrap_servers)
        self._rng.shuffle(known)
        self._rng.shuffle(bootstrap)
        known.sort(key=lambda each: not self._pool.is_connected(each))
        # All known addresses may be dead, so the bootstrap servers must have their turn (KIP-899).
        return list(dict.fromkeys([*known[:MAX_ASKED], *bootstrap]))

    # -- connections ------------------------------------------------------------------------------

    async def connection(self, node_id: int, name: str = "") -> BrokerConnection:
        """Return the open connection of that name to a broker; open it if there is none.

        The connection may close at any time, so ask for it again before each use.

        Raises:
          BrokerUnreachable: the broker is not known, or does not answer.
          ClassicError: see open_connection.
        """
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise BrokerUnreachable(f"broker {node_id} is not in the cluster's metadata.")
        return await self._pool.get(broker.address, name)

    async def aclose(self) -> None:
        """Close all connections; calls under way fail."""
        await self._pool.aclose()

    # -- calls ------------------------------------------------------------------------------------

    async def call_any(self, name: str, request: Any | MakeRequest, **options: Any) -> Any:
        """Send a request to any broker; options as for `BrokerConnection.call`.

        Raises:
          ClassicError: see the module's head for what was repeated.
        """

        async def find() -> BrokerConnection:
            if not self.metadata.brokers:
                await self._refresh_once([])
            return await self._pool.get(self._candidates()[0])

        return await self._call(name, find, request, options)

    async def call_broker(
        self, node_id: int, name: str, request: Any | MakeRequest, **options: Any
    ) -> Any:
        """Send a request to that broker; options and errors as for `call_any`."""

        async def find() -> BrokerConnection:
            if node_id not in self.metadata.brokers:
                await self._refresh_once([])
            return await self.connection(node_id)

        return await self._call(name, find, request, options)

    async def call_controller(self, name: str, request: Any | MakeRequest, **options: Any) -> Any:
        """Send a request to the controller; options and errors as for `call_any`."""

        async def find() -> BrokerConnection:
            if self.metadata.controller_id not in self.metadata.brokers:
                await self._refresh_once([])
            return await self.connection(self.metadata.controller_id)

        return await self._call(name, find, request, options)

    async def call_leader(
        self, topic: str, partition: int, name: str, request: Any | MakeRequest, **options: Any
    ) -> Any:
        """Send a request to a partition's leader; options and errors as for `call_any`.

        The response may have error codes: a read is repeated while they are retriable, and any
        other request never.
        """

        async def find() -> BrokerConnection:
            leader = self.metadata.leader_of(topic, partition)
            if leader is None:
                await self._refresh_once([topic])
                leader = self.metadata.leader_of(topic, partition)
            if leader is None:
                raise self._no_leader(topic, partition)
            return await self.connection(leader)

        return await self._call(name, find, request, options, [topic])

    def _no_leader(self, topic: str, index: int) -> Refused:
        known = self.metadata.topics.get(topic)
        found = known.partitions.get(index) if known else None
        code = known.error_code if known else 0
        if not code:
            code = found.error_code if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Refused(f"{topic}-{index}", code or ErrorCode.LEADER_NOT_AVAILABLE)

    async def _call(
        self,
        name: str,
        find: _Find,
        request: Any | MakeRequest,
        options: dict[str, Any],
        topics: Sequence[str] = (),
    ) -> Any:
        last: list[Any] = []  # of the last try; more precise than an error

        async def once() -> Any:
            last.clear()
            connection = await find()
            response = await connection.call(name, request, **options)
            last.append(response)
            codes = codes_in(name, response)
            if is_metadata_old(codes):
                await self._refresh_quietly(topics)
            code = code_to_repeat(name, codes)
            if code:
                raise Refused(f"{connection.broker} refused {name}", code)
            return response

        try:
            return await self._repeat(name, once, partial(self._refresh_quietly, topics))
        except ClassicError:
            if last:
                return last[0]
            raise

    async def _repeat(
        self,
        name: str,
        once: Callable[[], Awaitable[_T]],
        prepare: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> _T:
        """Call once() until it succeeds, and prepare() before each repeat; return the result."""
        latest = self._now() + self._backoff.total_seconds
        for pause_seconds in self._backoff.pauses(self._rng):
            try:
                return await once()
            except ClassicError as error:
                is_late = self._now() + pause_seconds > latest
                if not may_repeat(name, error) or is_late or self._pool.is_closed:
                    raise
            await trio.sleep(pause_seconds)
            await prepare()
        raise AssertionError("pauses have no end")

    async def _refresh_quietly(self, topics: Sequence[str]) -> None:
        """Refresh once; ignore a retriable failure, since the next try follows in any case."""
        try:
            await self._refresh_once(topics)
        except ClassicError as error:
            if error.kind is not Kind.RETRIABLE:
                raise
