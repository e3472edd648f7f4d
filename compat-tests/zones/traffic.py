"""The clients of the zones' test: unmodified ones that name their zone in every possible way."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from zones.cluster import LISTENER, PROXIED, TIDEGATE, ZONES, Cluster, ZoneGateway

TOPIC = "traffic"
PARTITIONS = 6
SECONDS = 60.0
ROUNDS = 5
VALUE = b"v" * 1000
KEYS = (
    *("tidegate_az", "diskless_az", "diskless_rack_id", "inkless_az"),
    *("ws_az", "warpstream_az", "automq_az", "zone"),
)
SEPARATORS = ", |&;"
AT_ONCE = 12


@dataclass(frozen=True, slots=True)
class Case:
    """A client in a zone.  listener: the one at which it begins."""

    client_id: str
    zone: str
    listener: str = "PLAINTEXT"


def cases() -> list[Case]:
    """Return the cases.

    These are each key with each separator, each key URL-encoded, and clients whose zone only
    settings name.
    """
    found: list[Case] = []
    for number, key in enumerate(KEYS):
        for at, separator in enumerate(SEPARATORS):
            zone = ZONES[(number + at) % 3]
            found.append(Case(f"app{number}{separator}{key}={zone}", zone))
        zone = ZONES[number % 3]
        encoded = quote(zone, safe="").replace("-", "%2D")
        found.append(Case(f"enc{number}&{key}={encoded}&old", zone))
    found.append(Case("listener-only", "az-2", LISTENER))
    found.append(Case("cidr-only", "az-1"))
    found.append(Case("cidr-behind-proxy", "az-3", PROXIED))
    return found


@dataclass(slots=True)
class Moved:
    """Bytes of some clients at all gateways, by the zone of the other end."""

    same: int = 0
    cross: int = 0
    unknown: int = 0


def create(cluster: Cluster, topic: str, partitions: int) -> None:
    """Create a topic with a replica in every zone, which consumers with client.rack alone need."""
    admin = AdminClient({"bootstrap.servers": cluster.gateways[0].address()})
    for future in admin.create_topics([NewTopic(topic, partitions, 3)]).values():
        future.result(SECONDS)


def moved(cluster: Cluster, direction: str, client_id: str | None = None) -> Moved:
    """Return the bytes of a client by `tidegate zones`, or of all clients by the metrics pages."""
    found = Moved()
    for gateway in cluster.gateways:
        if gateway.popen is None:
            continue
        if client_id is None:
            series = gateway.metrics()
            for kind in ("same", "cross", "unknown"):
                name = f'tidegate_zone_bytes_total{{direction="{direction}",zone="{kind}"}}'
                setattr(found, kind, getattr(found, kind) + int(series.get(name, 0.0)))
            continue
        for row in gateway.report()["clients"]:
            if row["client_id"] == client_id:
                for kind, count in row[direction].items():
                    setattr(found, kind, getattr(found, kind) + count)
    return found


def bootstrap(cluster: Cluster, case: Case) -> str:
    """Return the address of a gateway in another zone, to begin at."""
    return next(each for each in cluster.gateways if each.zone != case.zone).address(case.listener)


def produce(cluster: Cluster, some: Sequence[Case]) -> dict[str, int]:
    """Produce with one librdkafka producer for each case; return errors by their names."""
    errors: dict[str, int] = {}

    def told(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors[error.name()] = errors.get(error.name(), 0) + 1

    producers = [
        Producer({"bootstrap.servers": bootstrap(cluster, each), "client.id": each.client_id})
        for each in some
    ]
    for _ in range(ROUNDS):
        for producer in producers:
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, VALUE, partition=partition, on_delivery=told)
            producer.poll(0)
        for producer in producers:
            if producer.flush(SECONDS):
                errors["NOT_SENT"] = errors.get("NOT_SENT", 0) + 1
    return errors


def produce_kafka_python(cluster: Cluster, case: Case) -> None:
    """Produce with kafka-python."""
    from kafka import KafkaProducer  # its import warns, and in tests warnings are errors

    producer = KafkaProducer(
        bootstrap_servers=bootstrap(cluster, case), client_id=case.client_id, acks="all"
    )
    try:
        for _ in range(ROUNDS):
            sent = [producer.send(TOPIC, VALUE, partition=number) for number in range(PARTITIONS)]
            for each in sent:
                each.get(timeout=SECONDS)
    finally:
        producer.close(timeout=SECONDS)


def consume(cluster: Cluster, client_id: str, rack: str, count: int) -> int:
    """Read with a consumer that names its zone in client.rack alone; return the record count."""
    case = Case(client_id, rack)
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap(cluster, case),
        "client.id": client_id,
        "client.rack": rack,
        "group.id": f"group-{client_id}",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    read = 0
    try:
        consumer.subscribe([TOPIC])
        end = time.monotonic() + SECONDS
        while read < count and time.monotonic() < end:
            for message in consumer.consume(1000, timeout=1.0):
                if message.error() is not None:
                    raise RuntimeError(str(message.error()))
                read += 1
    finally:
        consumer.close()
    return read


@dataclass(slots=True)
class TrafficRun:
    """Part (a) of a run.  say: prints its progress."""

    cluster: Cluster
    say: Callable[[str], None]
    problems: list[str]

    def run(self) -> dict[str, Any]:
        """Produce, consume, lose a zone; return the figures."""
        create(self.cluster, TOPIC, PARTITIONS)
        every = cases()
        records = self._produce(every)
        produced = moved(self.cluster, "produced")
        fetched = self._consume(records)
        lost = self._lose("az-2")
        return {
            "client_ids": len(every),
            "records": records,
            "produced": _dict(produced),
            "fetched": fetched,
            "lost_zone": lost,
        }

    def _produce(self, every: Sequence[Case]) -> int:
        for at in range(0, len(every), AT_ONCE):
            errors = produce(self.cluster, every[at : at + AT_ONCE])
            if errors:
                self.problems.append(f"librdkafka's producers had errors: {errors}")
            self.say(f"{min(at + AT_ONCE, len(every))} of {len(every)} ways to say a zone")
        python = [Case("python,zone=az-3", "az-3"), Case("python-automq&automq_az=az-2", "az-2")]
        for each in python:
            produce_kafka_python(self.cluster, each)
        for each in (*every, *python):
            self._check(each)
        total = moved(self.cluster, "produced")
        if total.cross or total.unknown:
            self.problems.append(f"produced across zones: {total}")
        return (len(every) + len(python)) * ROUNDS * PARTITIONS

    def _check(self, case: Case) -> None:
        found = moved(self.cluster, "produced", case.client_id)
        if found.cross or found.unknown or not found.same:
            self.problems.append(f"{case.client_id!r} of {case.zone}: {found}")

    def _consume(self, records: int) -> dict[str, int]:
        for zone in ZONES:
            read = consume(self.cluster, f"reader-{zone}", zone, records)
            if read != records:
                self.problems.append(f"a consumer of {zone} read {read} of {records} records")
            self.say(f"a consumer of {zone} read {read} records")
        total = moved(self.cluster, "fetched")
        if total.cross or total.unknown or not total.same:
            self.problems.append(f"fetched across zones: {total}")
        return _dict(total)

    def _lose(self, zone: str) -> dict[str, Any]:
        """Stop all gateways of a zone while a client of the zone produces, and start them again."""
        case = Case(f"survivor,zone={zone}", zone)
        errors: list[str] = []
        producer = Producer(
            {
                "bootstrap.servers": ",".join(each.address() for each in self.cluster.gateways),
                "client.id": case.client_id,
                "topic.metadata.refresh.interval.ms": 2_000,
            }
        )
        _send(producer, errors)
        at_home = moved(self.cluster, "produced", case.client_id)
        for each in self.cluster.of(zone):
            each.stop()
        self.say(f"zone {zone} has no gateway now")
        for _ in range(ROUNDS):
            _send(producer, errors)
            time.sleep(1.0)  # meanwhile the client asks for new metadata
        away = moved(self.cluster, "produced", case.client_id)
        others = [each for each in self.cluster.gateways if each.zone != zone]
        answers = sum(each.report()["answers_without_gateway_in_zone"] for each in others)
        text = "".join(map(_zones_text, others))
        for each in self.cluster.of(zone):
            each.start()
        back = self._wait_until_home(producer, case, errors)
        if errors or at_home.cross or not away.cross or not answers or not back:
            self.problems.append(f"lost {zone}: {errors} {at_home} {away} {answers} {back}")
        if f"Zone {zone} has no gateway" not in text or "clients whose zone has none" not in text:
            self.problems.append(f"`tidegate zones` did not tell of {zone}:\n{text}")
        return {
            "errors": len(errors),
            "bytes_elsewhere": away.cross,
            "answers_without_gateway": answers,
            "is_shown": f"Zone {zone} has no gateway" in text,
            "came_back": back,
        }

    def _wait_until_home(self, producer: Producer, case: Case, errors: list[str]) -> bool:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            before = moved(self.cluster, "produced", case.client_id)
            _send(producer, errors)
            after = moved(self.cluster, "produced", case.client_id)
            if after.same > before.same and after.cross == before.cross:
                return True
            time.sleep(0.5)
        return False


def _send(producer: Producer, errors: list[str]) -> None:
    def told(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error.name())

    for partition in range(PARTITIONS):
        producer.produce(TOPIC, VALUE, partition=partition, on_delivery=told)
    if producer.flush(SECONDS):
        errors.append("NOT_SENT")


def _zones_text(gateway: ZoneGateway) -> str:
    admin = str(gateway.said["admin_url"]).removeprefix("http://")
    command = [*TIDEGATE, "zones", "--admin", admin]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode()


def _dict(found: Moved) -> dict[str, int]:
    return {"same": found.same, "cross": found.cross, "unknown": found.unknown}
