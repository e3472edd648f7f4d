"""Target: a whole gateway in memory.  Each input is the bytes of one connection.

After each input a fresh client must be served.  After a stretch of inputs the gateway must hold
nothing: no connection, no arena, no dead task, no error in the log.  Time is virtual and the order
of tasks seeded, so that a stretch repeats.  A gateway serves one stretch; topics, groups and
settings of an input stay for the inputs after it.
"""

from __future__ import annotations

import gc
import re
import resource
import time
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import contextmanager
from random import Random
from typing import Any, Final

import structlog
import trio
from trio.testing import MockClock

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.builder import GatewayBuilder
from tidegate_gateway.environment import Environment, Identity
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.network.memory_transport import MemoryTransport, memory_transport_pair
from tidegate_gateway.network.transport import TransportBroken
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol.messages import (
    api_versions,
    create_topics,
    init_producer_id,
    list_offsets,
    produce,
)
from tidegate_simulation.world.tasks.scheduling import seeded_scheduling
from tidegate_storage.stores.memory_store import MemoryObjectStore

from .connection_inputs import (
    CLIENT,
    MEMBER_ID,
    TOPIC,
    TOPIC_ID,
    for_producers,
    good_batch,
    request,
    seeds,
    spoiled,
    transaction_seeds,
)
from .cover import Marks
from .engine import MAX_FINDINGS, Chooser, Finding, Tally, Target, finding_of
from .record_targets import NOW_MS
from .transactions.checks import TransactionChecks, check_none_is_open
from .transactions.inputs import LONG_TX, TX

STRETCH: Final = 1000
GOOD_TOPIC: Final = "good-neighbour"
SHORT_SECONDS: Final = 0.02
LONG_SECONDS: Final = 4.0
"""Longer than the first rebalance of a group waits for members."""
LONG_EVERY: Final = 16
GOOD_PATIENCE_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 2400.0
"""Longer than any join can wait (group.max.session.timeout.ms)."""
SLOW_SECONDS: Final = 1.0
"""The CPU time from which an input is slow, with the good client's share."""
WORKS_EVERY: Final = 20
MAX_GROWTH_BYTES: Final = 256 << 20
_MEMBER: Final = re.compile(CLIENT.encode() + rb"-[0-9a-f]{8}-[0-9a-f-]{27}")
_CHUNK: Final = 1 << 16


class ConnectionTarget:
    """The seeds of connections; ConnectionCampaign runs the inputs."""

    head_bytes = 0
    fixed_bytes = 0
    bytes_per_byte = 0
    seconds_per_kib = 0.0

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        return seeds(rng)

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""

    def run(self, data: bytes) -> None:
        """Run one input in a gateway of its own."""
        campaign = ConnectionCampaign(Marks(), 1, [], type(self)())
        findings = campaign.replay([data]).findings
        if findings:
            raise AssertionError(next(iter(findings.values())).text)


class TransactionsTarget(ConnectionTarget):
    """The same with requests of transactions."""

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        return transaction_seeds(rng)


class _Chooser(Chooser):
    def damaged(self, base: bytes, others: list[bytes]) -> bytes:
        return spoiled(self._rng, base, others)


class ConnectionCampaign:
    """Runs a campaign as engine.Campaign does, for connections."""

    def __init__(
        self, marks: Marks, seed: int, stored: list[bytes], target: Target | None = None
    ) -> None:
        self._marks = marks
        self._seed = seed
        self.chooser: Chooser = _Chooser(target or ConnectionTarget(), Random(seed), stored)
        self.tally = Tally(seeds=len(self.chooser.seeds))
        self._stretches = 0
        self._reached = marks.reached
        self.stretch: list[bytes] = []

    def run(self, goes_on: Callable[[int], bool]) -> Tally:
        """Run until goes_on(connections) says no."""
        started, tally = time.perf_counter(), self.tally
        while goes_on(tally.executions) and len(tally.findings) < MAX_FINDINGS:
            self._run_stretch(self._chosen(goes_on))
        tally.seconds = time.perf_counter() - started
        tally.corpus = len(self.chooser.grown)
        return tally

    def replay(self, inputs: list[bytes]) -> Tally:
        """Run these inputs on one gateway, nothing else."""
        self._run_stretch(iter(inputs))
        return self.tally

    def _chosen(self, goes_on: Callable[[int], bool]) -> Iterator[bytes]:
        for _ in range(STRETCH):
            if not goes_on(self.tally.executions):
                return
            yield self.chooser.next()

    def _run_stretch(self, inputs: Iterator[bytes]) -> None:
        self._stretches += 1
        self.stretch = []
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            with seeded_scheduling(self._seed + self._stretches), errors_to(self._on_error):
                trio.run(self._serve, inputs, clock=MockClock(autojump_threshold=0))
        except BaseExceptionGroup as group:
            self._found(finding_of(_innermost(group), self._last))
        except Exception as error:
            self._found(finding_of(error, self._last))
        gc.collect()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        self.tally.peak_bytes = max(self.tally.peak_bytes, grown)
        if grown > MAX_GROWTH_BYTES and self._stretches > 1:
            self._found(Finding("memory", f"one stretch took {grown} bytes", self._last))

    @property
    def _last(self) -> bytes:
        return self.stretch[-1] if self.stretch else b""

    async def _serve(self, inputs: Iterator[bytes]) -> None:
        async with trio.open_nursery() as nursery:
            world = await World.started(nursery, self._seed)
            for data in inputs:
                self.stretch.append(data)
                await self._execute(world, data)
            await world.check_settled()
            nursery.cancel_scope.cancel()

    async def _execute(self, world: World, data: bytes) -> None:
        started = time.thread_time()
        await world.offend(data)
        await world.good_client_is_served(works=self.tally.executions % WORKS_EVERY == 0)
        took = time.thread_time() - started
        self.tally.slowest = max(self.tally.slowest, (took, len(data)))
        if took > SLOW_SECONDS:
            self._found(Finding("time", f"{len(data)} bytes held up the loop {took:.2f} s", data))
        self.tally.executions += 1
        if self._marks.reached > self._reached:
            self._reached = self._marks.reached
            self.chooser.keep(data)

    def _on_error(self, event: MutableMapping[str, Any]) -> None:
        error = event.get("error_object")
        if isinstance(error, BaseException):
            self._found(finding_of(error, self._last))
        else:
            self._found(Finding(f"logged: {event.get('event')}", repr(event), self._last))

    def _found(self, finding: Finding) -> None:
        self.tally.findings.setdefault(finding.signature, finding)


def _innermost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    # The element type of a group within a group is not known.
    return _innermost(error) if isinstance(error, BaseExceptionGroup) else error  # pyright: ignore[reportUnknownArgumentType]


@contextmanager
def errors_to(report: Callable[[MutableMapping[str, Any]], None]) -> Generator[None]:
    """Report the log records of errors, and pass no log record on."""

    def look(_: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if method in ("error", "exception", "critical"):
            import sys

            event["error_object"] = sys.exception()
            report(event)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[look])
    try:
        yield
    finally:
        structlog.configure(**before)


class World:
    """A gateway with two topics, and its clients."""

    def __init__(self, gateway: Gateway, nursery: trio.Nursery) -> None:
        self.gateway = gateway
        self._nursery = nursery
        self._topic_id = bytes(16)
        self._member_id = MEMBER_ID.encode()
        self._clients = 0
        self._checks = TransactionChecks()

    @classmethod
    async def started(cls, nursery: trio.Nursery, seed: int) -> World:
        """Return a gateway that serves."""
        start = trio.current_time()
        builder = GatewayBuilder(
            Identity(1, "key", "az1", (Endpoint("PLAINTEXT", "h", 9092),), "1", "c" * 22),
            BrokerSettings({}),
            Environment(
                store=MemoryObjectStore(),
                log=MemoryLog(),
                rng=Random(seed),
                wall_clock=lambda: NOW_MS / 1000 + trio.current_time() - start,
                pools=inline_pools(),
            ),
        )
        world = cls(await builder.start(nursery), nursery)
        await world._create_topics()
        for name in (*TX, LONG_TX):
            wanted = init_producer_id.InitProducerIdRequest(name, 60_000)
            await world._ask("InitProducerId", 5, init_producer_id, wanted)
        return world

    async def _create_topics(self) -> None:
        topics = [
            create_topics.CreatableTopic(GOOD_TOPIC, 1, 1),
            create_topics.CreatableTopic(TOPIC, 2, 1),
            create_topics.CreatableTopic(
                "compacted",
                2,
                1,
                configs=[create_topics.CreatableTopicConfig("cleanup.policy", "compact")],
            ),
        ]
        wanted = create_topics.CreateTopicsRequest(topics, 1000)
        answer = await self._ask("CreateTopics", 7, create_topics, wanted)
        self._topic_id = answer.topics[1].topic_id

    def connect(self) -> MemoryTransport:
        """Open a connection."""
        self._clients += 1
        ours, theirs = memory_transport_pair(("client", 1024 + self._clients % 60_000))
        self._nursery.start_soon(self.gateway.door.let_in, theirs, "PLAINTEXT")
        return ours

    async def offend(self, data: bytes) -> None:
        """Send an input, read answers for a while, and close the connection."""
        data = data.replace(TOPIC_ID, self._topic_id)
        data = data.replace(MEMBER_ID.encode(), self._member_id)
        data = for_producers(data, self._producers())
        transport = self.connect()
        received = bytearray()
        is_long = self._clients % LONG_EVERY == 0
        with trio.move_on_after(LONG_SECONDS if is_long else SHORT_SECONDS):
            await _exchange(transport, data, received)
        transport.close()
        members = _MEMBER.findall(received)
        if members and len(members[-1]) == len(MEMBER_ID):
            self._member_id = bytes(members[-1])
        self._checks.check(self._state)

    def _producers(self) -> dict[int, tuple[int, int]]:
        rows = [self._state.transactions.get(name) for name in TX]
        return {
            number: (row.producer_id, row.epoch)
            for number, row in enumerate(rows)
            if row is not None
        }

    @property
    def _state(self) -> ClusterState:
        return self.gateway.coordinator.state

    async def good_client_is_served(self, *, works: bool) -> None:
        """Send a request on a fresh connection; now and then write and read as well."""
        versions = await self._ask(
            "ApiVersions", 0, api_versions, api_versions.ApiVersionsRequest()
        )
        assert versions.api_keys
        if not works:
            return
        partition = produce.PartitionProduceData(0, good_batch(b"good"))
        topic = produce.TopicProduceData(GOOD_TOPIC, partition_data=[partition])
        await self._ask("Produce", 9, produce, produce.ProduceRequest(None, -1, 30_000, [topic]))
        wanted = list_offsets.ListOffsetsPartition(0, timestamp=-1)
        asked = list_offsets.ListOffsetsRequest(
            topics=[list_offsets.ListOffsetsTopic(GOOD_TOPIC, [wanted])]
        )
        await self._ask("ListOffsets", 7, list_offsets, asked)

    async def _ask(self, name: str, version: int, module: Any, message: Any) -> Any:
        """Return the response to a good client; error codes in it are not checked."""
        transport = self.connect()
        received = bytearray()
        body = module.encode_request(message, version)
        with trio.fail_after(GOOD_PATIENCE_SECONDS):
            await _exchange(transport, request(name, version, body), received, frames=1)
        transport.close()
        assert len(received) > 8, f"{name} of a good client was not answered"
        tagged = name != "ApiVersions"
        return module.decode_response(memoryview(received)[9 if tagged else 8 :], version)

    async def check_settled(self) -> None:
        """Check that the gateway holds nothing after every deadline has passed."""
        await trio.sleep(SETTLE_SECONDS)
        gateway = self.gateway
        assert not gateway.connections, f"{len(gateway.connections)} connections are held"
        assert gateway.writes.pool.large_bytes == 0, (
            f"{gateway.writes.pool.large_bytes} bytes of arenas are held"
        )
        check_none_is_open(self._state)
        await self.good_client_is_served(works=True)


async def _exchange(
    transport: MemoryTransport, data: bytes, received: bytearray, frames: int = 0
) -> None:
    """Send and receive at once, until that many frames or the end."""
    view, chunk = memoryview(data), memoryview(bytearray(_CHUNK))
    try:
        while True:
            if view:
                view = view[transport.send_nowait([view]) :]
            await transport.wait_receivable()
            size = transport.receive_nowait(chunk)
            if size == 0:
                return
            received += chunk[: size or 0]
            if frames and len(received) >= 4 + int.from_bytes(received[:4], "big"):
                return
    except TransportBroken:
        return
