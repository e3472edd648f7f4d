"""Three gateways, drained and started again one by one under librdkafka and aiokafka.

No record fails, no consumer reads a record twice or misses one, and no member sees a rebalance.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import ConsumerRebalanceListener
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving

PARTITIONS = 6
MEMBERS = 3
PAUSE_SECONDS = 0.02
NODES = (1, 2, 3)


class Gateways:
    """Processes by node id.  Each restarted process has the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives: dict[int, ExitStack] = {}
        self.running: dict[int, Process] = {}

    def start(self, node_id: int) -> None:
        port = self.running[node_id].servers.rpartition(":")[2] if node_id in self.running else "0"
        named = [
            f"node.id={node_id}",
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"object.store=file:{self._folder}/objects",
            f"metadata.log=sqlite:{self._folder}/metadata.db",
            "group.initial.rebalance.delay.ms=500",
            "drain.grace.ms=1000",
        ]
        options = [word for each in named for word in ("--set", each)]
        life = self._lives[node_id] = ExitStack()
        data = str(self._folder / f"data-{node_id}")
        self.running[node_id] = life.enter_context(
            serving("serve", "--data", data, "--log-level", "warning", *options, cwd=self._folder)
        )

    def drain(self, node_id: int) -> tuple[int, str]:
        """Stop one with SIGTERM; return its exit code and what it logged."""
        return self.running[node_id].stop()

    @property
    def servers(self) -> str:
        return ",".join(each.servers for each in self.running.values())

    def close(self) -> None:
        for life in self._lives.values():
            life.close()


@contextmanager
def gateways(folder: Path) -> Iterator[Gateways]:
    found = Gateways(folder)
    try:
        for node_id in NODES:
            found.start(node_id)
        yield found
    finally:
        found.close()


class Seen:
    """The observations of all clients of a run."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.acknowledged: set[str] = set()
        self.read: dict[str, Counter[str]] = {"rd": Counter(), "aio": Counter()}
        self.assigned: Counter[str] = Counter()
        self.revoked: Counter[str] = Counter()
        self.grew = threading.Condition()

    def note(self, change: Callable[[], None]) -> None:
        with self.grew:
            change()
            self.grew.notify_all()

    def wait(self, is_so: Callable[[], bool]) -> None:
        with self.grew:
            assert self.grew.wait_for(lambda: bool(self.errors) or is_so(), PATIENCE_SECONDS)

    def wait_for_more(self) -> None:
        count = len(self.acknowledged) + 5
        self.wait(lambda: len(self.acknowledged) > count)

    def on_error(self, error: KafkaError) -> None:
        """Ignore closed connections, which librdkafka reports here, too; they are no failures."""
        if error.code() != KafkaError._TRANSPORT:  # pyright: ignore[reportPrivateUsage]
            self.note(lambda: self.errors.append(f"librdkafka: {error}"))

    def is_all_read(self) -> bool:
        return all(self.acknowledged <= set(each) for each in self.read.values())


class RdProducer:
    """Idempotent."""

    def __init__(self, servers: str, seen: Seen) -> None:
        self._seen = seen
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "error_cb": seen.on_error,
            }
        )

    def run(self, is_over: threading.Event) -> None:
        number = 0
        while not is_over.wait(PAUSE_SECONDS):
            number += 1
            self._producer.produce(
                "t", f"rd-{number}", partition=number % PARTITIONS, on_delivery=self._delivered
            )
            self._producer.poll(0)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._seen.note(lambda: self._seen.errors.append(f"librdkafka produce: {error}"))
        else:
            value = (message.value() or b"").decode()
            self._seen.note(lambda: self._seen.acknowledged.add(value))


class RdMember:
    """One member of a group of three."""

    def __init__(self, servers: str, name: str, seen: Seen) -> None:
        self._seen, self._name = seen, name
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "rd",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "heartbeat.interval.ms": 500,
                "session.timeout.ms": 10_000,
                "error_cb": seen.on_error,
            }
        )

    def run(self, is_over: threading.Event) -> None:
        seen = self._seen
        self._consumer.subscribe(
            ["t"],
            on_assign=lambda *_: seen.note(lambda: seen.assigned.update([self._name])),
            on_revoke=lambda *_: seen.note(lambda: seen.revoked.update([self._name])),
        )
        while not is_over.is_set():
            for message in self._consumer.consume(500, 0.1):
                self._take(message)
        self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self._seen.note(lambda: self._seen.errors.append(f"librdkafka consume: {error}"))
        else:
            value = (message.value() or b"").decode()
            self._seen.note(lambda: self._seen.read["rd"].update([value]))


class AioClients(ConsumerRebalanceListener):  # type: ignore[misc]
    """An idempotent producer and the only member of another group."""

    def __init__(self, servers: str, seen: Seen) -> None:
        self._servers, self._seen = servers, seen

    def run(self, is_over: threading.Event, is_read: threading.Event) -> None:
        try:
            asyncio.run(self._run(is_over, is_read))
        except Exception as error:
            text = f"aiokafka: {error!r}"
            self._seen.note(lambda: self._seen.errors.append(text))

    async def _run(self, is_over: threading.Event, is_read: threading.Event) -> None:
        await asyncio.gather(self._produce(is_over), self._consume(is_read))

    async def _produce(self, is_over: threading.Event) -> None:
        producer: Any = AIOKafkaProducer(bootstrap_servers=self._servers, enable_idempotence=True)
        await producer.start()
        number = 0
        while not is_over.is_set():
            number += 1
            value = f"aio-{number}"
            await producer.send_and_wait("t", value.encode(), partition=number % PARTITIONS)
            self._seen.note(partial(self._seen.acknowledged.add, value))
            await asyncio.sleep(PAUSE_SECONDS)
        await producer.stop()

    async def _consume(self, is_read: threading.Event) -> None:
        consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            group_id="aio",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            heartbeat_interval_ms=500,
            session_timeout_ms=10_000,
        )
        consumer.subscribe(["t"], listener=self)
        await consumer.start()
        while not is_read.is_set():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                values = [each.value.decode() for each in records]
                self._seen.note(partial(self._seen.read["aio"].update, values))
        await consumer.stop()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._seen.note(lambda: self._seen.assigned.update(["aio"]))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Do nothing: aiokafka calls this before each join, too, even without a rebalance."""


class Clients:
    """All of them, in threads."""

    def __init__(self, servers: str, seen: Seen) -> None:
        self._is_over, self._is_read = threading.Event(), threading.Event()
        members = [RdMember(servers, f"rd-{each}", seen) for each in range(MEMBERS)]
        work: list[tuple[Callable[..., None], tuple[threading.Event, ...]]] = [
            (RdProducer(servers, seen).run, (self._is_over,)),
            (AioClients(servers, seen).run, (self._is_over, self._is_read)),
            *((each.run, (self._is_read,)) for each in members),
        ]
        self._threads = [threading.Thread(target=run, args=args) for run, args in work]
        for each in self._threads:
            each.start()

    def stop_producing(self) -> None:
        self._is_over.set()
        self._threads[0].join(PATIENCE_SECONDS)

    def close(self) -> None:
        self._is_over.set()
        self._is_read.set()
        for each in self._threads:
            each.join(PATIENCE_SECONDS)
            assert not each.is_alive()


def test_clients_notice_nothing_of_a_rolling_restart(tmp_path: Path) -> None:
    seen = Seen()
    with gateways(tmp_path) as running, ExitStack() as stack:
        admin = AdminClient({"bootstrap.servers": running.servers})
        admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(PATIENCE_SECONDS)
        clients = Clients(running.servers, seen)
        stack.callback(clients.close)
        names = {"aio", *(f"rd-{each}" for each in range(MEMBERS))}
        seen.wait(lambda: set(seen.assigned) == names and all(seen.read.values()))
        settled = Counter(seen.assigned)
        revoked = Counter(seen.revoked)
        for node_id in NODES:
            assert running.drain(node_id) == (0, "")
            seen.wait_for_more()
            running.start(node_id)
        clients.stop_producing()
        seen.wait(seen.is_all_read)
        assert seen.errors == []
        assert seen.assigned == settled
        assert seen.revoked == revoked
        assert all(set(each.values()) == {1} for each in seen.read.values())
    assert seen.errors == []
