"""The load of librdkafka: an idempotent producer and a member of a group; prints its answers.

    python compat-tests/faults/librdkafka_client.py [plain] BOOTSTRAP TOPIC PARTITIONS RATE ZONE

`plain`: the family of this name, whose producer is not idempotent; its acks are `all`, too.  The
lines are described in ledger.py.  `flush` on standard input ends the producer; the end of standard
input ends the program.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

PLAIN = sys.argv[1:2] == ["plain"]
NAME = "plain" if PLAIN else "librdkafka"
TICK_SECONDS = 0.02
COMMIT_SECONDS = 0.5
FLUSH_SECONDS = 120
PADDING = "." * 80
# The clients refresh their metadata often, so that they use a gateway again before its next fault.
RECENT = {"topic.metadata.refresh.interval.ms": 5000, "reconnect.backoff.max.ms": 1000}
_lock = threading.Lock()


def say(kind: str, *words: object) -> None:
    """Print a line."""
    line = " ".join(map(str, (kind, int(time.time() * 1000), *words)))
    with _lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _ignore(_error: KafkaError) -> None:
    """Drop errors about a gateway that is down; librdkafka tries again."""


class Production(threading.Thread):
    """Sends numbered records at a steady rate, without waiting for their outcomes."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self._topic, self._partitions, self._rate = topic, partitions, rate
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": f"{NAME}-producer",
                "enable.idempotence": not PLAIN,
                "acks": "all",
                "linger.ms": 5,
                **RECENT,
                "error_cb": _ignore,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        """See Thread."""
        began, number = time.monotonic(), 0
        while not self.stop.wait(TICK_SECONDS):
            due = int((time.monotonic() - began) * self._rate)
            for each in range(number, due):
                self._send(each)
            number = due
            self._producer.poll(0)
        if not self._producer.flush(FLUSH_SECONDS):
            say("D")

    def _send(self, number: int) -> None:
        partition = number * 7919 % self._partitions
        value = f"{NAME} {number} {partition} {PADDING}"

        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                say("A", partition, message.offset(), number)
            else:
                say("F", partition, number, error.name())

        self._producer.produce(self._topic, value, partition=partition, on_delivery=told)


class Consumption:
    """A member of the group, which commits now and then."""

    def __init__(self, bootstrap: str, topic: str, zone: str) -> None:
        self._topic = topic
        self._read: dict[int, int] = {}
        self._is_committing = False
        self._commit_at = 0.0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": f"{NAME}-consumer",
                "client.rack": zone,
                "group.id": f"{NAME}-group",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "range",
                **RECENT,
                "on_commit": self._committed,
                "error_cb": _ignore,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        while not stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None:
                self._note(message)
            if time.monotonic() > self._commit_at and self._read and not self._is_committing:
                self._commit()
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._read.clear()
        say("J", ",".join(str(each.partition) for each in partitions))

    def _note(self, message: Message) -> None:
        error, value = message.error(), message.value()
        if error is not None or value is None:
            say("E", "poll", error.name() if error is not None else "no value")
            return
        producer, number, *_ = value.decode().split()
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        say("C", partition, f"{offset}:{producer}:{number}")
        self._read[partition] = offset + 1

    def _commit(self) -> None:
        offsets = [TopicPartition(self._topic, *each) for each in self._read.items()]
        say("T", ",".join(f"{partition}:{offset}" for partition, offset in self._read.items()))
        self._read.clear()
        self._is_committing = True
        self._commit_at = time.monotonic() + COMMIT_SECONDS
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._is_committing = False
            say("E", "commit", error.args[0].name())

    def _committed(self, error: Any, partitions: list[TopicPartition]) -> None:
        self._is_committing = False
        if error is not None:
            say("E", "commit", error.name())
            return
        done = [each for each in partitions if each.error is None]
        say("K", ",".join(f"{each.partition}:{each.offset}" for each in done))


def main() -> None:
    """Run the command line."""
    bootstrap, topic, partitions, rate, zone = sys.argv[2 if PLAIN else 1 :]
    production = Production(bootstrap, topic, int(partitions), int(rate))
    stop = threading.Event()
    consumption = Consumption(bootstrap, topic, zone)
    consumer = threading.Thread(target=consumption.run, args=(stop,))
    production.start()
    consumer.start()
    for _ in sys.stdin:
        production.stop.set()
    stop.set()
    consumer.join()


if __name__ == "__main__":
    main()
