"""A transaction that stays open across a restore, with staged offsets."""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from faults.attendance import now_ms
from histories.history import History
from histories.topics import LISTS, orders_of

SECONDS: Final = 20.0
_QUIET: Final = {"log_level": 0}


class Keeper:
    """A transaction that writes to some lists, stages an offset, and stays open."""

    def __init__(self, bootstrap: str, family: str, name: str, history: History) -> None:
        self._bootstrap = bootstrap
        self._topic = orders_of(family)
        self._group = f"keeper-{name}"
        self._name = f"{history.name}-{name}"
        self._history = history
        settings = {"bootstrap.servers": bootstrap, "transactional.id": self._name, **_QUIET}
        self._producer = Producer(settings)

    def open(self, lists: int = 3) -> None:
        """Begin, write and stage an offset, so that the log has the transaction."""
        producer, name = self._producer, f"{self._name}-0.1"
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        self._history.take(f"B {now_ms()} {name}")
        for index in range(lists):
            producer.produce(LISTS, f"{name}:{index}:{lists}", partition=index)
        if producer.flush(SECONDS):
            raise TimeoutError(f"{name} could not be written")
        consumer = self._consumer()
        offsets = [TopicPartition(self._topic, 0, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
        consumer.close()

    def problems(self) -> list[str]:
        """Return the problems after a restore.

        The producer must be fenced, and its offset must not be committed.  A new producer of its
        transactional id must be able to commit.
        """
        found: list[str] = []
        try:
            self._producer.commit_transaction(SECONDS)
            found.append(f"{self._name} was committed after the restore")
        except KafkaException as error:
            if error.args[0].retriable():
                found.append(f"{self._name} was not fenced: {error.args[0].name()}")
        consumer = self._consumer()
        [offset] = consumer.committed([TopicPartition(self._topic, 0)], timeout=SECONDS)
        consumer.close()
        if offset.error is not None or offset.offset >= 0:
            found.append(f"{self._name} left a committed offset, {offset}")
        self._begin_anew()
        return found

    def _begin_anew(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": self._name}
        producer = Producer({**settings, **_QUIET})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        name = f"{self._name}-1.1"
        producer.produce(LISTS, f"{name}:0:1", partition=0)
        self._history.take(f"T {now_ms()} {name} commit 1")
        producer.commit_transaction(SECONDS)
        self._history.take(f"K {now_ms()} {name} commit")

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._group, **_QUIET})
