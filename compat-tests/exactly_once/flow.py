"""Continuous input of a run, and a reader of its output."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict

from confluent_kafka import Consumer, Producer, TopicPartition
from faults.attendance import now_ms

TICK_SECONDS = 0.05
FLUSH_SECONDS = 120.0
_QUIET = {"log_level": 0}
# The clients refresh their metadata often, so that they use a gateway again before the next fault.
_RECENT = {"topic.metadata.refresh.interval.ms": 5000, "reconnect.backoff.max.ms": 1000}


class Writer(threading.Thread):
    """Writes `rate` records a second; the first word of each value is a random key.

    written: the number of acknowledged records.  failed: the errors of the others.
    """

    def __init__(self, bootstrap: str, topic: str, keys: int, rate: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.written = 0
        self.failed: list[str] = []
        self._topic, self._keys, self._rate = topic, keys, rate
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                **_RECENT,
                **_QUIET,
            }
        )

    def run(self) -> None:
        """See Thread."""
        began, sent = time.monotonic(), 0
        while not self._ended.wait(TICK_SECONDS):
            due = int((time.monotonic() - began) * self._rate)
            for number in range(sent, due):
                value = f"k{self._random.randrange(self._keys)} {number}"
                self._producer.produce(self._topic, value, on_delivery=self._heard)
            sent = due
            self._producer.poll(0)
        left = self._producer.flush(FLUSH_SECONDS)
        if left:
            self.failed.append(f"{left} records had no answer")

    def finish(self) -> None:
        """Write no more, and wait for the last answer."""
        self._ended.set()
        self.join()

    def _heard(self, error: object, _message: object) -> None:
        if error is None:
            self.written += 1
        else:
            self.failed.append(str(error))


class Reader(threading.Thread):
    """Reads committed counts as they come.  counts: by key.  times: when reads found some."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.counts: defaultdict[str, list[int]] = defaultdict(list)
        self.times: list[int] = []
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **_RECENT,
                **_QUIET,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])

    def run(self) -> None:
        """See Thread."""
        while not self._ended.is_set():
            found = False
            for message in self._consumer.consume(num_messages=1000, timeout=0.1):
                key, value = message.key(), message.value()
                if message.error() is None and key is not None and value is not None:
                    self.counts[key.decode()].append(int(value))
                    found = True
            if found:
                self.times.append(now_ms())
        self._consumer.close()

    @property
    def total(self) -> int:
        """The number of counts that it has read."""
        return sum(map(len, list(self.counts.values())))

    def finish(self) -> None:
        """Read no more."""
        self._ended.set()
        self.join()
