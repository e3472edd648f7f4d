"""Writers of librdkafka: appenders, movers, and the producer of orders; threads of one program."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from histories.saying import say
from histories.topics import (
    ACCOUNTS,
    LISTS,
    NUMBER_OF_ACCOUNTS,
    ORDERS,
    PARTITIONS,
    Words,
    group_of,
    orders_of,
    place,
)

# Short, so that some requests are repeated while gateways pause.
QUIET: Final[dict[str, Any]] = {
    "socket.timeout.ms": 8000,
    "topic.metadata.refresh.interval.ms": 5000,
    "reconnect.backoff.max.ms": 1000,
    # Errors only tell that a gateway is down, and librdkafka retries.
    "error_cb": lambda _error: None,
    "log_level": 0,
}
TRY_SECONDS: Final = 10.0
GIVE_UP_SECONDS: Final = 120.0
ABORTED_OF_HUNDRED: Final = 15
MOST_ORDERS: Final = 10
Record = tuple[str, int, str]
"""Topic, partition, and what follows TXN:INDEX:COUNT in the value."""


class Transactor(ABC):
    """The writer of one transactional id.  It replaces a producer that cannot end a transaction."""

    def __init__(self, words: Words, name: str, timeout_ms: int, end: threading.Event) -> None:
        self.words = words
        self.name = f"{words.family}-{name}"
        self.random = random.Random(f"{words.seed} {self.name} {words.life}")
        self._end = end
        self._timeout_ms = timeout_ms
        self._producer: Producer | None = None
        self._number = 0

    @abstractmethod
    def step(self) -> None:
        """Do one transaction, or wait for something to do."""

    def run(self) -> None:
        """Work until the end."""
        pause = 1 / self.words.rate
        due = time.monotonic()
        while not self._end.is_set():
            try:
                self.step()
            except KafkaException as error:
                self.told("step", error.args[0])
            due = max(due + pause, time.monotonic() - 1)
            self._end.wait(max(0.0, due - time.monotonic()))
        say("D", self.name)

    def told(self, what: str, error: KafkaError) -> None:
        """Print an error of the application."""
        say("E", self.name, what, error.name())

    def ready(self) -> Producer:
        """Return a producer that may begin a transaction.

        Raises:
          KafkaException: its initialisation failed.
        """
        if self._producer is None:
            made = Producer(
                {
                    "bootstrap.servers": self.words.bootstrap,
                    "client.id": f"{self.name} zone={self.words.zone}",
                    "transactional.id": self.name,
                    "transaction.timeout.ms": self._timeout_ms,
                    "linger.ms": 2,
                    **QUIET,
                }
            )
            made.init_transactions(GIVE_UP_SECONDS)
            self._producer = made
        return self._producer

    def transact(
        self, records: list[Record], commits: bool, offsets: Callable[[Producer], None]
    ) -> bool:
        """Do one transaction; return whether it was committed, as far as is known."""
        self._number += 1
        name = f"{self.name}-{self.words.life}.{self._number}"
        places = [""] * len(records)
        producer = self.ready()
        try:
            producer.begin_transaction()
            say("B", name)
            for index, (topic, partition, text) in enumerate(records):
                value = ":".join([name, str(index), str(len(records)), *([text] if text else [])])
                self._send(producer, topic, partition, value, places, index)
                self._think()
            offsets(producer)
        except KafkaException as error:
            self.told("transaction", error.args[0])
            self._abort(producer, name, places)
            return False
        if commits:
            return self._commit(producer, name, places)
        self._abort(producer, name, places)
        return False

    def _send(
        self,
        producer: Producer,
        topic: str,
        partition: int,
        value: str,
        places: list[str],
        index: int,
    ) -> None:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                places[index] = f"{place(topic, partition)}:{message.offset()}"

        producer.produce(topic, value, partition=partition, on_delivery=told)

    def _think(self) -> None:
        draw = self.random.random()
        if draw < 0.02:
            time.sleep(self.random.uniform(0.1, 1.5))
        elif draw < 0.2:
            time.sleep(self.random.uniform(0.0, 0.05))

    def _commit(self, producer: Producer, name: str, places: list[str]) -> bool:
        say("T", name, "commit", len(places))
        error = self._insist(producer.commit_transaction)
        if error is None:
            say("K", name, "commit", ",".join(places))
        elif error.txn_requires_abort():
            self.told("commit", error)
            self._abort(producer, name, places)
        else:
            self._lose(name, error)
        return error is None

    def _abort(self, producer: Producer, name: str, places: list[str]) -> None:
        say("T", name, "abort", len(places))
        error = self._insist(producer.abort_transaction)
        if error is None:
            say("K", name, "abort", ",".join(places))
        else:
            self._lose(name, error)

    def _insist(self, end: Callable[[float], None]) -> KafkaError | None:
        """Repeat a call as long as it fails with a retriable error; return its last error."""
        give_up = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                end(TRY_SECONDS)
            except KafkaException as failed:
                error: KafkaError = failed.args[0]
                if not error.retriable() or time.monotonic() > give_up:
                    return error
                self.told("end", error)
            else:
                return None

    def _lose(self, name: str, error: KafkaError) -> None:
        """Note that the end is unknown.  The next producer of the transactional id completes it."""
        say("U", name, error.name())
        if self._producer is not None:
            self._producer.purge()
        self._producer = None


class Appender(Transactor):
    """Appends unique values to one to four lists."""

    def step(self) -> None:
        """See Transactor."""
        lists = self.random.sample(range(PARTITIONS[LISTS]), self.random.randint(1, 4))
        records = [(LISTS, each, "") for each in lists for _ in range(self.random.randint(1, 2))]
        commits = self.random.randrange(100) >= ABORTED_OF_HUNDRED
        self.transact(records, commits, lambda _producer: None)


class Mover(Transactor):
    """Takes orders, and moves their amounts between accounts."""

    def __init__(self, words: Words, name: str, timeout_ms: int, end: threading.Event) -> None:
        super().__init__(words, name, timeout_ms, end)
        self._consumer = Consumer(
            {
                "bootstrap.servers": words.bootstrap,
                "client.id": f"{self.name}-consumer zone={words.zone}",
                "group.id": group_of(words.family),
                "session.timeout.ms": 10_000,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "range",
                **QUIET,
            }
        )
        self._must_rewind = False
        self._consumer.subscribe([orders_of(words.family)], on_assign=self._assigned)

    def run(self) -> None:
        """See Transactor."""
        super().run()
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        """Begin at the committed offsets of the given partitions."""
        self._must_rewind = False

    def step(self) -> None:
        """See Transactor."""
        # First of all fence the transaction of an earlier program, which leaves pending offsets in
        # the group.
        self.ready()
        if self._must_rewind:
            self._rewind()
        messages = self._consumer.consume(MOST_ORDERS, 0.2)
        good = [each for each in messages if each.error() is None]
        for each in messages:
            error = each.error()
            if error is not None:
                self.told("poll", error)
        if not good:
            return
        ends: dict[int, int] = {}
        records: list[Record] = []
        for message in good:
            ends[_partition(message)] = _offset(message) + 1
            records += _bookings(message)
        offsets = [TopicPartition(orders_of(self.words.family), *each) for each in ends.items()]

        def send_offsets(producer: Producer) -> None:
            member = self._consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, member, TRY_SECONDS * 3)

        commits = self.random.randrange(100) >= ABORTED_OF_HUNDRED
        self._must_rewind = True  # also if transact() raises
        self._must_rewind = not self.transact(records, commits, send_offsets)

    def _rewind(self) -> None:
        """Seek to the committed offsets.  The transactional id has no open transaction now."""
        assigned = self._consumer.assignment()
        if assigned:
            for each in self._consumer.committed(assigned, TRY_SECONDS):
                if each.error is not None:
                    raise KafkaException(each.error)
                each.offset = each.offset if each.offset >= 0 else OFFSET_BEGINNING
                self._consumer.seek(each)
        self._must_rewind = False


def _partition(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return int(partition)


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return int(offset)


def _bookings(message: Message) -> list[Record]:
    """Return the debit and the credit of an order."""
    order = f"{_partition(message)}.{_offset(message)}"
    value = message.value()
    assert value is not None
    debtor, creditor, amount = map(int, value.decode().split())
    count = PARTITIONS[ACCOUNTS]
    return [
        (ACCOUNTS, debtor % count, f"{order}:{-amount}"),
        (ACCOUNTS, creditor % count, f"{order}:{amount}"),
    ]


class Orders:
    """Writes orders for transfers, at a steady rate."""

    def __init__(self, words: Words, end: threading.Event) -> None:
        self._topic = orders_of(words.family)
        self._random = random.Random(f"{words.seed} orders {words.life}")
        self._end = end
        self._rate = words.rate
        self._producer = Producer(
            {"bootstrap.servers": words.bootstrap, "enable.idempotence": True, **QUIET}
        )

    def run(self) -> None:
        """Work until the end, and until all orders have an answer."""
        number = 0
        while not self._end.wait(1 / (2 * self._rate)):
            debtor, creditor = self._random.sample(range(NUMBER_OF_ACCOUNTS), 2)
            value = f"{debtor} {creditor} {self._random.randint(1, 100)}"
            self._producer.produce(self._topic, value, partition=number % ORDERS)
            self._producer.poll(0)
            number += 1
        self._producer.flush(GIVE_UP_SECONDS)
        say("D", "orders")


def consumer_settings(words: Words, name: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a consumer that assigns its partitions by itself."""
    return {
        "bootstrap.servers": words.bootstrap,
        "client.id": f"{words.family}-{name}",
        "client.rack": words.zone,
        "group.id": f"{words.family}-{name}",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        **QUIET,
        **more,
    }
