"""Clients of three gateways under one quota that the gateways share (quota.scope=cluster).

    compat-tests/run quotas-shared [--seconds 30] [--quota 1000000] [--what produce,consume]

The clients of one gateway want 1.8 times the quota, and those of another 0.2 times.  The third
gateway has no clients.  The program measures the total rate of all clients.  Then it kills (kill
-9) the gateway with the most clients, which also divides the quota.  Five seconds later it measures
again.  It runs librdkafka's producers first, then its consumers.  The exit status is 1 if the total
rate is less than 95 % or more than 110 % of the quota.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness.broker import fresh_folder
from harness.probe import answers
from harness.process import Process, free_ports, spawn
from runner.options import option
from runner.result import Result

from quotas.scripts import Wire
from tidegate_coordination.placement.rendezvous import choose
from tidegate_gateway.quotas.sharing.messages import key_of
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import alter_client_quotas as acq

TOPIC: Final = "shared"
VALUE: Final = bytes(range(250)) * 40
PARTS: Final = (1.8, 0.2)
NODES: Final = (1, 2, 3)
START_SECONDS: Final = 90.0
WARM_SECONDS: Final = 20.0
"""After this time clients have used up the burst of ten seconds of their quota."""
KILLED_SECONDS: Final = 5.0
ALLOWED: Final = (0.95, 1.10)
USER: Final = "ANONYMOUS"
WAYS: Final = ("produce", "consume")


@dataclass(slots=True)
class Gateway:
    """One gateway, alone in its zone."""

    node_id: int
    port: int
    command: list[str]
    log: Path
    process: Process | None = None

    def start(self) -> None:
        """Start it and wait until clients may connect."""
        self.process = spawn(self.command, self.log)
        self.process.wait_until(lambda: answers("127.0.0.1", self.port), START_SECONDS)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()


@contextmanager
def gateways() -> Generator[dict[int, Gateway]]:
    """Run all of them over one log and one store."""
    folder = fresh_folder("shared-quotas")
    found: dict[int, Gateway] = {}
    for node_id in NODES:
        port, peer = free_ports(2)
        settings = {
            "node.id": str(node_id),
            "broker.rack": f"az-{node_id}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "peer.listener": f"127.0.0.1:{peer}",
            "metadata.log": f"sqlite:{folder / 'metadata.db'}",
            "object.store": f"file:{folder / 'objects'}",
            "quota.scope": "cluster",
        }
        command = [sys.executable, "-m", "tidegate_gateway", "serve"]
        command += ["--data", str(folder / f"gateway-{node_id}")]
        for name, text in settings.items():
            command += ["--set", f"{name}={text}"]
        found[node_id] = Gateway(node_id, port, command, folder / f"gateway-{node_id}.log")
    try:
        for each in found.values():
            each.start()
        yield found
    finally:
        for each in found.values():
            each.kill()


@dataclass(slots=True)
class Client:
    """A client of a zone.  part: the share of the quota that it wants.  passed: (time, bytes)."""

    zone: int
    quota: int
    part: float
    bootstrap: str
    ends: Event
    passed: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    @property
    def config(self) -> dict[str, Any]:
        """The settings of librdkafka; the zone in the client id chooses the gateway."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": f"of {self.zone},zone=az-{self.zone}",
            "reconnect.backoff.max.ms": 500,
        }

    def produce(self) -> None:
        """Produce at the rate that it wants, until `ends` is set."""
        producer = Producer(
            {
                **self.config,
                "linger.ms": 5,
                "batch.size": 100_000,
                "queue.buffering.max.kbytes": 4_096,
            }
        )
        for _ in self._turns():
            try:
                producer.produce(TOPIC, VALUE, on_delivery=self._on_delivery)
                producer.poll(0)
            except BufferError:
                producer.poll(0.05)
        producer.purge()

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.passed.append((time.monotonic(), len(VALUE)))

    def consume(self) -> None:
        """Read from the beginning, again and again, at the rate that it wants."""
        consumer = Consumer(
            {
                **self.config,
                "group.id": "g",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.message.max.bytes": 200_000,
                "queued.max.messages.kbytes": 400,
                # Otherwise librdkafka would pause fetches for a second when its queue is full, and
                # so demand too little.
                "fetch.queue.backoff.ms": 10,
            }
        )
        begin = TopicPartition(TOPIC, 0, 0)
        consumer.assign([begin])
        for _ in self._turns():
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.passed.append((time.monotonic(), len(message.value() or b"")))
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.assign([begin])
        consumer.close()

    def _turns(self) -> Generator[None]:
        """Yield when the next value is due."""
        due = time.monotonic()
        while not self.ends.is_set():
            due = max(due + len(VALUE) / (self.part * self.quota), time.monotonic() - 1.0)
            time.sleep(max(due - time.monotonic(), 0.0))
            yield

    def rate(self, since: float, until: float) -> float:
        """Return the client's rate between two times, divided by the quota."""
        total = sum(size for at, size in self.passed if since < at <= until)
        return total / (until - since) / self.quota


def measure(what: str, quota: int, seconds: float) -> bool:
    """Return whether the total rates are within the bounds.  what: produce or consume."""
    resource = {"produce": "Produce", "consume": "Fetch"}[what]
    owner = choose(key_of(resource, USER, ""), NODES)
    other = next(each for each in NODES if each != owner)
    with gateways() as found:
        bootstrap = ",".join(f"127.0.0.1:{each.port}" for each in found.values())
        prepare(bootstrap, what, quota, seconds)
        ends = Event()
        clients = [
            Client(zone, quota, part, bootstrap, ends)
            for zone, part in zip((owner, other), PARTS, strict=True)
        ]
        threads = [Thread(target=getattr(each, what)) for each in clients]
        for each in threads:
            each.start()
        time.sleep(WARM_SECONDS)
        begun = time.monotonic()
        time.sleep(seconds)
        are_right = [judge(f"{what}, three gateways", clients, begun, time.monotonic())]
        found[owner].kill()
        killed = time.monotonic()
        time.sleep(KILLED_SECONDS + seconds)
        for second in range(int(KILLED_SECONDS)):
            show(
                f"  second {second + 1} after kill -9",
                clients,
                killed + second,
                killed + second + 1,
            )
        begun = killed + KILLED_SECONDS
        are_right.append(judge(f"{what}, after kill -9", clients, begun, begun + seconds))
        ends.set()
        for each in threads:
            each.join(60)
    return all(are_right)


def prepare(bootstrap: str, what: str, quota: int, seconds: float) -> None:
    """Create the topic, fill it for consumers, and set the quota."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, 1)]).values():
        future.result(30)
    if what == "consume":
        producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 100_000})
        for _ in range(int(seconds) * quota // len(VALUE)):
            producer.produce(TOPIC, VALUE)
            producer.poll(0.001)
        assert producer.flush(120) == 0
    ops = [acq.OpData(name, quota, False) for name in ("producer_byte_rate", "consumer_byte_rate")]
    entity = acq.AlterClientQuotasRequestEntityData("user", USER)
    entry = acq.AlterClientQuotasRequestEntryData([entity], ops)
    wire = Wire(bootstrap.partition(",")[0], "admin")
    request = acq.AlterClientQuotasRequest([entry])
    answer = wire.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, acq, request)
    assert not answer.entries[0].error_code, answer
    wire.close()


def show(name: str, clients: list[Client], since: float, until: float) -> float:
    """Print the rates, as shares of the quota; return their sum."""
    rates = [each.rate(since, until) for each in clients]
    shown = " + ".join(f"{each:.3f}" for each in rates)
    print(f"{name:34} {sum(rates):.3f} = {shown}", flush=True)
    return sum(rates)


def judge(name: str, clients: list[Client], since: float, until: float) -> bool:
    """Print the rates; return whether their sum is within the bounds."""
    least, most = ALLOWED
    return least <= show(name, clients, since, until) <= most


@dataclass(frozen=True)
class Options:
    """The options."""

    seconds: float = 30.0
    quota: int = option(1_000_000, "bytes a second")
    what: tuple[str, ...] = option(WAYS, "by comma", choices=WAYS)


def main(options: Options) -> Result:
    """Run it."""
    are_right = [measure(each, options.quota, options.seconds) for each in options.what]
    return Result(all(are_right))
