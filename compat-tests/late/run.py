"""Three gateways, real clients: a request that its client abandoned must not undo later changes.

    compat-tests/run late --rounds 20 --real --json

The program starts `tidegate dev --zones 3`.  In each round a client asks the gateway of one zone by
name: to delete a topic, to delete all of its records, or to set a config.  The gateway is stopped
(SIGSTOP) a moment before or after this request.  So the request waits in the gateway's socket or in
its process, or it is in the metadata log.  The client abandons it.  Through another zone the topic
is deleted and made again, or written to, or the config is set again; all this is acknowledged.
Then the first gateway continues (SIGCONT).  The exit status is 1 if the new topic, a record or the
newer config is gone afterwards.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, Final

import confluent_kafka.admin
import kafka
from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from kafka.admin import ConfigResource as KafkaResource
from kafka.admin import ConfigResourceType as ResourceType
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from runner.options import option
from runner.result import Result, say
from runner.shared import Seeded

from late.cluster import Cluster, Gateway, running_cluster

_admin: Any = confluent_kafka.admin  # partly without types
REQUEST_SECONDS: Final = 1.0
GIVEN_UP_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 3.0
RECORDS: Final = 50
CONFIG: Final = "retention.ms"
OLDER, NEWER = "3600000", "-1"
MOMENTS: Final = ("before", "after")


class Hasty:
    """A client (kafka-python) that asks one gateway, and waits a second for the answer.

    It asks no other gateway.  A client whose controller has changed asks such a gateway, too.
    """

    def __init__(self, gateway: Gateway) -> None:
        """Connect."""
        self._admin: Any = KafkaAdminClient(
            bootstrap_servers=gateway.servers,
            client_id="late",
            request_timeout_ms=int(1000 * REQUEST_SECONDS),
        )
        self._node_id = gateway.node_id
        send = self._admin._manager.send
        self._admin._manager.send = lambda request, node_id=None, **more: send(
            request, node_id=gateway.node_id, **more
        )
        self._admin._controller_id = gateway.node_id

    def delete(self, topic: str) -> None:
        """Delete it."""
        self._admin.delete_topics([topic])

    def empty(self, topic: str) -> None:
        """Delete all of its records."""
        part = kafka.TopicPartition(topic, 0)
        self._admin.delete_records({part: -1}, partition_leader_id=self._node_id)

    def set_config(self, topic: str) -> None:
        """Set its config."""
        resource = KafkaResource(ResourceType.TOPIC, topic, {CONFIG: OLDER})
        self._admin.alter_configs([resource], raise_on_unknown=False, incremental=True)

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()


class Clients:
    """Clients (librdkafka) that continue through a gateway that is not stopped."""

    def __init__(self, gateway: Gateway) -> None:
        """Connect."""
        self._conf: dict[str, str | int | float | bool] = {
            "bootstrap.servers": gateway.servers,
            "client.id": f"late,zone={gateway.zone}",
            "log_level": 0,
        }
        self.admin = _admin.AdminClient(self._conf)
        self.admin.list_topics(timeout=30)

    def create(self, topic: str) -> None:
        """Create it."""
        patiently(lambda: self.admin.create_topics([_admin.NewTopic(topic, 1)])[topic])

    def delete(self, topic: str) -> Future[Any]:
        """Ask to delete it."""
        asked: dict[str, Future[Any]] = self.admin.delete_topics([topic])
        return asked[topic]

    def set_config(self, topic: str, value: str) -> Future[Any]:
        """Ask to set its config."""
        how = _admin.AlterConfigOpType.SET
        entry = _admin.ConfigEntry(CONFIG, value, incremental_operation=how)
        kind = _admin.ResourceType.TOPIC
        resource = _admin.ConfigResource(kind, topic, incremental_configs=[entry])
        asked: dict[Any, Future[Any]] = self.admin.incremental_alter_configs([resource])
        return asked[resource]

    def write(self, topic: str) -> None:
        """Write records, all acknowledged."""
        producer = Producer({**self._conf, "acks": "all"})
        failures: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(error)

        for number in range(RECORDS):
            producer.produce(topic, str(number), on_delivery=delivered)
        if producer.flush(60) or failures:
            raise RuntimeError(f"not acknowledged: {failures}")

    def topic_id(self, topic: str) -> str:
        """Return its id; "" if it does not exist."""
        try:
            told = self.admin.describe_topics(TopicCollection([topic]))[topic].result(30)
        except KafkaException:
            return ""
        return str(told.topic_id)

    def offsets(self, topic: str) -> tuple[int, int]:
        """Return where it begins and ends."""
        part = TopicPartition(topic, 0)
        found = [
            self.admin.list_offsets({part: spec})[part].result(30).offset
            for spec in (_admin.OffsetSpec.earliest(), _admin.OffsetSpec.latest())
        ]
        return found[0], found[1]

    def config(self, topic: str) -> str:
        """Return the value of its config."""
        resource = _admin.ConfigResource(_admin.ResourceType.TOPIC, topic)
        return str(self.admin.describe_configs([resource])[resource].result(30)[CONFIG].value)


def patiently(ask: Callable[[], Future[Any]], seconds: float = 60.0) -> None:
    """Repeat a request until it is acknowledged: after SIGCONT a gateway refuses for a moment."""
    until = time.monotonic() + seconds
    while True:
        try:
            ask().result(seconds)
            return
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


class Round:
    """One round.  outcome: how the abandoned request ended for its client."""

    def __init__(self, cluster: Cluster, number: int, rng: Random) -> None:
        """Choose the gateway that is stopped, and the one that serves meanwhile."""
        self.kind = ("delete", "empty", "config")[number % 3]
        self.moment = rng.choice(MOMENTS)
        self._topic = f"late-{number}"
        # Metadata names the gateway with the lowest node id as the controller.
        controller, *others = sorted(cluster.gateways, key=lambda each: each.node_id)
        self._stopped = rng.choice(others)
        self._other = Clients(controller)
        self._rng = rng
        self.outcome = ""

    def run(self) -> str:
        """Return the problem that was found, if any."""
        self._other.create(self._topic)
        self._other.write(self._topic)
        hasty = Hasty(self._stopped)
        try:
            asked = self._ask_and_stop(hasty)
            self.outcome = "answered" if _is_done(asked) else "given up"
            hasty.close()
            expected = self._go_on()
            time.sleep(self._rng.uniform(0.0, 3.0))
        except TimeoutError:
            self.outcome = "held up"  # such as by a lock of the stopped gateway
            return ""
        finally:
            os.kill(self._stopped.pid, signal.SIGCONT)
        time.sleep(SETTLE_SECONDS)
        found = self._look()
        return "" if self._is_kept(expected, found) else f"{self._topic}: {expected} became {found}"

    def _is_kept(self, expected: Any, found: Any) -> bool:
        """Return whether all records that were acknowledged later exist.

        Earlier records may be deleted late.
        """
        if self.kind != "empty" or expected[0] != found[0]:
            return bool(expected == found)
        (_, end), (start_now, end_now) = expected[1], found[1]
        return bool(end == end_now and start_now <= RECORDS)

    def _ask_and_stop(self, hasty: Hasty) -> Future[Any]:
        ask = {"delete": hasty.delete, "empty": hasty.empty, "config": hasty.set_config}[self.kind]
        if self.moment == "before":
            os.kill(self._stopped.pid, signal.SIGSTOP)
            return _in_thread(ask, self._topic)
        asked = _in_thread(ask, self._topic)
        time.sleep(self._rng.uniform(0.0, 0.008))
        os.kill(self._stopped.pid, signal.SIGSTOP)
        return asked

    def _go_on(self) -> object:
        other, topic = self._other, self._topic
        if self.kind == "delete":
            try:
                other.delete(topic).result(30)
            except KafkaException:
                if other.topic_id(topic):
                    raise
            other.create(topic)
            other.write(topic)
        elif self.kind == "empty":
            other.write(topic)
        else:
            patiently(lambda: other.set_config(topic, NEWER))
        return self._look()

    def _look(self) -> object:
        other, topic = self._other, self._topic
        if self.kind == "config":
            return other.config(topic)
        return (topic_id := other.topic_id(topic)), other.offsets(topic) if topic_id else None


def _in_thread(ask: Callable[[str], None], topic: str) -> Future[Any]:
    asked: Future[Any] = Future()

    def run() -> None:
        try:
            ask(topic)
            asked.set_result(None)
        except Exception as error:
            asked.set_exception(error)

    Thread(target=run, daemon=True).start()
    return asked


def _is_done(asked: Future[Any]) -> bool:
    try:
        asked.result(GIVEN_UP_SECONDS)
    except (KafkaError, TimeoutError):
        return False
    return True


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    rounds: int = 20
    is_real: bool = option(False, "on PostgreSQL and an S3 server", flag="--real")


def main(options: Options) -> Result:
    """Run it."""
    rng = Random(options.seed)
    problems: list[str] = []
    counts: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-late-") as folder,
        running_cluster(Path(folder), is_real=options.is_real) as cluster,
    ):
        for number in range(options.rounds):
            each = Round(cluster, number, rng)
            wrong = each.run()
            text = f"{each.kind}, stopped {each.moment}, {each.outcome}"
            counts[text] += 1
            say(f"{number:4}  {text}  {wrong}")
            problems += [wrong] if wrong else []
    figures = {"rounds": options.rounds, "seed": options.seed, "problems": problems}
    return Result(not problems, figures={**figures, "requests": dict(sorted(counts.items()))})
