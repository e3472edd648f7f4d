"""The plain produce path and the general one give the same answers, byte by byte.

A play is a row of requests and of changes to the cluster, drawn from a seed.  The same play runs at
two equal gateways, one of which has no plain path.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.produce.test_bad_batches import BAD_BATCHES, FAR_FUTURE, changed
from tests.worlds.cluster.several_gateways import Clock, Running, cluster
from tests.worlds.stores.slow_store import SlowStore
from tests.worlds.wire_client import WireClient, produce_request, records_batch, request_frame
from tidegate_coordination.rules.gateways import StartDraining
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_gateway.network.arenas import Arena
from tidegate_gateway.network.connection import Connection
from tidegate_gateway.network.transport import TransportBroken
from tidegate_gateway.requests.records.produce_fast_path import PlainProducePath
from tidegate_gateway.requests.records.produce_rules import MAY_ADD_SINCE
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.headers import encode_request_header
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import create_partitions as cp
from tidegate_protocol.messages import delete_topics as dt
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import incremental_alter_configs as ac
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import produce as pr
from tidegate_simulation.world.tasks.scheduling import seeded_scheduling

SEEDS = range(6)
STEPS = 60
PATIENCE_SECONDS = 20.0
STEP_SECONDS = 30.0
FRAME_SECONDS = 0.0003  # no divisor of a millisecond, since time stamps are cut to milliseconds
CONNECTIONS = 3
NOBODYS_ID = b"\x01" * 16
WRITERS = ["writer", "writer of much", "w" * 126]
ODD_WRITERS = ["transactional", "", "w" * 127]
# Name, partitions, configs.  The plain path does not take the longest names and most partition
# numbers.
TOPICS: list[tuple[str, int, dict[str, str]]] = [
    ("plain", 3, {}),
    ("plain2", 1, {}),
    ("wide", 140, {}),
    ("l" * 126, 1, {}),
    ("l" * 130, 1, {}),
    ("stamped", 2, {"message_timestamp_type": "LogAppendTime"}),
    ("compacted", 1, {"cleanup_policy": "compact"}),
    ("zipped", 1, {"compression_type": "gzip"}),
    ("timely", 1, {"message_timestamp_before_max_ms": "1000"}),
    ("small", 1, {"max_message_bytes": "100"}),
    ("short", 1, {"segment_bytes": str(1 << 20), "max_message_bytes": str(5 << 20)}),
    ("__consumer_offsets", 1, {}),
    ("gone", 2, {}),
]
CONFIGS = [
    ("max.message.bytes", "80"),
    ("max.message.bytes", "1000000"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "CreateTime"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("message.timestamp.after.max.ms", "9000000000"),
]


Producer = tuple[int, int]
"""Producer id and epoch."""


def good_batch(rng: Random, writer: Producer | None = None) -> bytes:
    """Draw a batch.  writer: the producer if the batch is transactional."""
    values = [bytes(rng.choice([0, 10, 40])) for _ in range(rng.randrange(1, 4))]
    if rng.random() < 0.1:
        values.append(rng.randbytes(rng.choice([20_000, 70_000])))
    more: dict[str, int] = {}
    if rng.random() < 0.3:
        more = {
            "producer_id": rng.choice([7, 8, 2**40]),
            "producer_epoch": rng.randrange(2),
            "base_sequence": rng.choice([0, 0, 1, 2, 3, 2**31 - 1]),
        }
    if writer is not None:
        more = {
            "attributes": TRANSACTIONAL,
            "producer_id": writer[0],
            "producer_epoch": writer[1],
            "base_sequence": rng.choice([0, 0, 1, 2, 3]),
        }
    return records_batch(*values, codec=rng.randrange(5), **more)


def odd_batch(rng: Random) -> bytes | None:
    if rng.random() < 0.5:
        return rng.choice([each for each, _ in BAD_BATCHES.values()])
    odd = [
        FAR_FUTURE,
        changed(attributes=TRANSACTIONAL),
        changed(producer_id=-2, base_sequence=3),
        changed(producer_id=5, base_sequence=-1),
        changed(max_timestamp=-1),
        changed(max_timestamp=2**63 - 1),
        changed(leader_epoch=9, base_timestamp=-5),
    ]
    return rng.choice(odd)


@dataclass(frozen=True, slots=True)
class Received:
    """The bytes that a client received after some requests, and whether its connection is open."""

    data: bytes
    is_open: bool

    def is_like(self, other: object) -> bool:
        """Return whether both may be the same answers; a close may cut off any number of bytes."""
        if not isinstance(other, Received) or self.is_open != other.is_open:
            return False
        if self.is_open:
            return self.data == other.data
        return self.data.startswith(other.data) or other.data.startswith(self.data)


class Play:
    """One run of a play.  answers: the received bytes, step by step."""

    def __init__(self, one: Running, store: SlowStore, rng: Random) -> None:
        self._one = one
        self._store = store
        self._rng = rng
        self._ids: dict[str, bytes] = {}
        self._producers: dict[str, Producer] = {}
        self._clients: list[WireClient | None] = [None] * CONNECTIONS
        self._ends_at = trio.current_time()
        self.answers: list[object] = []

    async def begin(self) -> None:
        for name, partitions, configs in TOPICS:
            await self._make(name, partitions, configs)
        for name in WRITERS:
            await self._initialise(name)

    async def _initialise(self, name: str) -> None:
        client = self._one.world.connect()
        answer = await client.call("InitProducerId", 5, ip.InitProducerIdRequest(name, 60_000))
        self._producers[name] = (answer.producer_id, answer.producer_epoch)

    async def _make(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic with an id of the play's choice: it is a part of answers."""
        topic_id = self._ids[name] = self._rng.randbytes(16)
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(topic_id, name, partitions, configs=dotted)
        await self._one.gateway.coordinator.propose(CreateTopics([topic]))

    async def step(self) -> None:
        rng = self._rng
        self._ends_at += STEP_SECONDS
        self._store.put_seconds = rng.choice([0.0, 0.0, 0.01, 1.0])
        if rng.random() < 0.15:
            await rng.choice([self._alter, self._delete, self._create, self._grow])()
        if rng.random() < 0.15:
            await rng.choice([self._end, self._end, self._add, self._fence])()
        place = rng.randrange(CONNECTIONS)
        client = self._clients[place]
        if client is None:
            client = self._clients[place] = self._one.world.connect()
        again = self._frame()
        makers = [self._frame, self._habitual_frame]
        frames = [
            again if rng.random() < 0.3 else rng.choice(makers)()
            for _ in range(rng.randrange(1, 5))
        ]
        with suppress(TransportBroken):  # the gateway has closed the connection at an earlier frame
            for part in apart(frames):
                await client.send(part)
                await trio.sleep(FRAME_SECONDS)
        received, is_open = await received_of(client)
        self.answers.append(Received(received, is_open))
        if not is_open:
            self._clients[place] = None
        await trio.sleep_until(self._ends_at)

    # -- requests ---------------------------------------------------------------------------------

    def _frame(self) -> bytes:
        rng = self._rng
        version = rng.randrange(9, 14) if rng.random() < 0.9 else rng.randrange(3, 9)
        writer = self._writer() if rng.random() < 0.3 else None
        request = pr.ProduceRequest(
            writer,
            rng.choices([-1, 1, 0, 2], [20, 10, 1, 1])[0],
            rng.choice([30_000, 30_000, 100, 0, -1]),
            [self._topic(version, writer) for _ in range(rng.choice([1, 1, 1, 2, 3]))],
        )
        if rng.random() < 0.02:
            request.topic_data.clear()
        client_id = rng.choice([None, "", "client", "another", "\u00e9" * 9])
        head = encode_request_header(
            ApiKey.PRODUCE, version, rng.randrange(-5, 2**31), client_id=client_id
        )
        body = bytearray(head + pr.encode_request(request, version))
        if rng.random() < 0.04:
            body[rng.randrange(2, len(body))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.02:
            body += b"\0"
        if rng.random() < 0.02:
            del body[rng.randrange(len(body)) :]
        return len(body).to_bytes(4, "big") + body

    def _habitual_frame(self) -> bytes:
        """Return a request that begins with the same bytes as earlier ones, as most do."""
        rng = self._rng
        version = rng.choice([12, 12, 12, 11, 13])
        writer = self._writer() if rng.random() < 0.5 else None
        batch = self._batch(writer) if rng.random() < 0.8 else odd_batch(rng)
        name = rng.choice(["plain", "plain", "gone", "short"])
        if name == "short" and rng.random() < 0.2:
            batch = records_batch(bytes(1 << 20))
        by_id = version == 13
        request = produce_request(
            [("" if by_id else name, 0, batch)],
            topic_id=self._ids[name] if by_id else bytes(16),
            transactional_id=writer,
        )
        return request_frame("Produce", version, request, rng.randrange(2**31))

    def _writer(self) -> str:
        """Draw the transactional id of a request."""
        return self._rng.choice(WRITERS if self._rng.random() < 0.9 else ODD_WRITERS)

    def _batch(self, writer: str | None) -> bytes:
        """Draw a batch for a request with a transactional id, rarely with another id's producer."""
        rng = self._rng
        if writer is None or rng.random() < 0.05:
            return good_batch(rng)
        if rng.random() < 0.05:
            writer = rng.choice(WRITERS)
        producer_id, epoch = self._producers.get(writer, (7, 0))
        return good_batch(rng, (producer_id, epoch + (rng.random() < 0.05)))

    def _topic(self, version: int, writer: str | None) -> pr.TopicProduceData:
        rng = self._rng
        if rng.random() < 0.6:
            name, partitions, _ = TOPICS[0] if rng.random() < 0.7 else TOPICS[2]
        else:
            name, partitions, _ = rng.choice(TOPICS)
            name = rng.choice([name] * 9 + ["unknown", ""])
        count = rng.choice([1, 1, 1, 2, 5]) if rng.random() < 0.97 else rng.choice([0, 126, 127])
        named = [rng.randrange(partitions) for _ in range(count)]
        if rng.random() < 0.05 and named:
            named[-1] = rng.choice([-1, partitions, partitions + 1, 2**31 - 1])
        is_good = rng.random() < 0.9
        parts = [
            pr.PartitionProduceData(index, self._batch(writer) if is_good else odd_batch(rng))
            for index in named
        ]
        if version < 13:
            return pr.TopicProduceData(name, bytes(16), parts)
        return pr.TopicProduceData("", self._ids.get(name, NOBODYS_ID), parts)

    # -- changes ----------------------------------------------------------------------------------

    async def _alter(self) -> None:
        name, value = self._rng.choice(CONFIGS)
        topic = self._rng.choice(TOPICS)[0]
        resource = ac.AlterConfigsResource(2, topic, [ac.AlterableConfig(name, 0, value)])
        await self._admin(
            "IncrementalAlterConfigs", 1, ac.IncrementalAlterConfigsRequest([resource])
        )

    async def _delete(self) -> None:
        names = [dt.DeleteTopicState(self._rng.choice(["gone", "plain2"]))]
        await self._admin("DeleteTopics", 6, dt.DeleteTopicsRequest(names, timeout_ms=1000))

    async def _create(self) -> None:
        name = self._rng.choice(["gone", "plain2"])
        if name not in self._one.gateway.coordinator.state.topics.by_name:
            await self._make(name, 2, {})

    async def _grow(self) -> None:
        topic = cp.CreatePartitionsTopic("plain", self._rng.randrange(3, 9), None)
        await self._admin("CreatePartitions", 3, cp.CreatePartitionsRequest([topic], 1000))

    async def _end(self) -> None:
        """End a transaction as clients of transaction version 1 or 2 do."""
        name, version = self._rng.choice(WRITERS), self._rng.choice([4, 5, 5])
        committed = self._rng.random() < 0.5
        request = et.EndTxnRequest(name, *self._producers[name], committed)
        answer = await self._one.world.connect().call("EndTxn", version, request)
        self.answers.append(answer)
        if version == 5 and answer.error_code == E.NONE:
            self._producers[name] = (answer.producer_id, answer.producer_epoch)

    async def _add(self) -> None:
        """Add partitions as clients of transaction version 1 do."""
        name = self._rng.choice(WRITERS)
        topic = ap.AddPartitionsToTxnTopic("plain", [0, 1])
        request = ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=self._producers[name][0],
            v3_and_below_producer_epoch=self._producers[name][1],
            v3_and_below_topics=[topic],
        )
        await self._admin("AddPartitionsToTxn", 3, request)

    async def _fence(self) -> None:
        await self._initialise(self._rng.choice(WRITERS))

    async def _admin(self, name: str, version: int, request: object) -> None:
        self.answers.append(await self._one.world.connect().call(name, version, request))

    async def drain(self) -> None:
        coordinator = self._one.gateway.coordinator
        await coordinator.propose(StartDraining(coordinator.incarnation))


def apart(frames: list[bytes]) -> list[bytes]:
    """Return what is sent at once: each frame alone if any may belong to a v1 transaction.

    If a later frame closes the connection, the general path drops a batch of a v1 transaction,
    because its client may begin another transaction elsewhere.  The plain path has already taken
    the batch by then.
    """
    versions = [int.from_bytes(each[6:8], "big") for each in frames]
    return frames if min(versions) < MAY_ADD_SINCE else [b"".join(frames)]


async def received_of(client: WireClient) -> tuple[bytes, bool]:
    """Return all that comes in some seconds, and whether the connection is open after that."""
    received, chunk = b"", memoryview(bytearray(1 << 16))
    with trio.move_on_after(PATIENCE_SECONDS):
        while True:
            try:
                await client.transport.wait_receivable()
                size = client.transport.receive_nowait(chunk)
            except TransportBroken:
                size = 0
            if size == 0:
                return received, False
            received += chunk[: size or 0]
    return received, True


async def given(seed: int) -> list[object]:
    """Run a play, and return its answers."""
    rng = Random(seed)
    async with cluster({"wal.max.object.bytes": "300000"}) as world:
        store = world.store = SlowStore()
        one = await world.start(1, Clock())
        if rng.random() < 0.5:
            await world.start(2, Clock())
        play = Play(one, store, rng)
        await play.begin()
        for _ in range(STEPS):
            await play.step()
        await play.drain()
        for _ in range(5):
            await play.step()
    return play.answers


Start = Callable[[PlainProducePath, Connection, memoryview, Arena], bool]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_both_produce_paths_answer_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    start: Start = PlainProducePath.start

    def counted(
        path: PlainProducePath, connection: Connection, frame: memoryview, arena: Arena
    ) -> bool:
        taken.append(start(path, connection, frame, arena))
        return taken[-1]

    monkeypatch.setattr(PlainProducePath, "start", counted)
    plain = on_a_clock_of_its_own(seed)
    assert taken.count(True) > STEPS / 5
    assert taken.count(False) > STEPS / 5
    monkeypatch.setattr(PlainProducePath, "start", lambda *_: False)
    general = on_a_clock_of_its_own(seed)
    assert len(plain) == len(general)
    for number, (ours, theirs) in enumerate(zip(plain, general, strict=True)):
        alike = ours.is_like(theirs) if isinstance(ours, Received) else ours == theirs
        assert alike, f"answer {number}: {ours!r} or {theirs!r}"


def on_a_clock_of_its_own(seed: int) -> list[object]:
    """Run a play with a new clock and seeded scheduling, because answers depend on both."""
    with seeded_scheduling(seed):
        return trio.run(given, seed, clock=MockClock(autojump_threshold=0))
