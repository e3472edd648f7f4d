"""The client programs of a run, its topics and first deposits, and a reader for the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from faults.clients import Family
from harness import install
from harness.places import HERE
from harness.process import Command
from harness.toolbox import java_command

from histories.history import History, Records
from histories.topics import (
    ACCOUNTS,
    LEVELS,
    NUMBER_OF_ACCOUNTS,
    ORDERS,
    PARTITIONS,
    Words,
    group_of,
    orders_of,
    place,
    places,
)
from histories.transfers import BANK

DEPOSIT: Final = 1000
IDLE_SECONDS: Final = 90.0
VERSION_1: Final = frozenset({"librdkafka"})
"""Families whose clients speak the older protocol of transactions."""
Where = tuple[str, int]
_QUIET: Final = {"log_level": 0}


def _librdkafka() -> Command:
    return [sys.executable, HERE / "histories" / "librdkafka_client.py"]


def _java() -> Command:
    return [*java_command(install.java_transactions()), "TransactionClient"]


def _franz_go() -> Command:
    return [install.go_clients() / "transaction-client"]


FAMILIES: Final[Mapping[str, Callable[[], Command]]] = {
    "librdkafka": _librdkafka,
    "java": _java,
    "franz-go": _franz_go,
}


def create_topics(bootstrap: str, families: Sequence[str]) -> None:
    """Create the topics of the run."""
    counts = PARTITIONS | {orders_of(each): ORDERS for each in families}
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    made = admin.create_topics([NewTopic(name, count, 3) for name, count in counts.items()])
    for each in made.values():
        each.result(60)


def pay_in(bootstrap: str, records: Records) -> History:
    """Pay into all accounts in one transaction; return the history of the payer."""
    history = History(BANK, records)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": BANK, **_QUIET})
    producer.init_transactions(60)
    producer.begin_transaction()
    name = f"{BANK}-w-0.1"
    for account in range(NUMBER_OF_ACCOUNTS):
        value = f"{name}:{account}:{NUMBER_OF_ACCOUNTS}:0.0:{DEPOSIT}"
        producer.produce(ACCOUNTS, value, partition=account % PARTITIONS[ACCOUNTS])
    history.take(f"T 1 {name} commit {NUMBER_OF_ACCOUNTS}")
    producer.commit_transaction(60)
    history.take(f"K 2 {name} commit")
    return history


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts client programs.  rate: transactions a second of each writer."""

    bootstrap: str
    rate: int
    seed: int
    logs: Path

    def start(self, history: History, number: int, life: int) -> Family[History]:
        """Start a family's program in zone az-NUMBER.  life: how often it was started before."""
        name = history.name
        words = Words(self.bootstrap, name, f"az-{number}", self.rate, self.seed, life)
        log = self.logs / f"{name}-{life}.log"
        return Family(name, [*FAMILIES[name](), *words.texts()], history, log=log)


class OrdersLeft:
    """The number of orders that the group of a family has not taken, by its committed offsets."""

    def __init__(self, bootstrap: str, family: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group_of(family), **_QUIET}
        )
        self._asked = [TopicPartition(orders_of(family), each) for each in range(ORDERS)]
        self._ends = [
            self._consumer.get_watermark_offsets(each, timeout=60)[1] for each in self._asked
        ]

    def count(self) -> int:
        """Return the number now.  No more orders may be written."""
        committed = self._consumer.committed(self._asked, timeout=60)
        pairs = zip(self._ends, committed, strict=True)
        return sum(end - max(0, each.offset) for end, each in pairs)

    def close(self) -> None:
        """End it."""
        self._consumer.close()


def sweep(bootstrap: str, level: str) -> dict[str, dict[int, str]]:
    """Read all places from start to end."""
    return _read(bootstrap, list(places().values()), level, place)


def orders(bootstrap: str, family: str) -> set[str]:
    """Return PARTITION.OFFSET of all orders of a family."""
    where = [(orders_of(family), each) for each in range(ORDERS)]
    found = _read(bootstrap, where, "c", lambda _topic, partition: str(partition))
    return {f"{partition}.{offset}" for partition, values in found.items() for offset in values}


def _read(
    bootstrap: str, wheres: Sequence[Where], level: str, name: Callable[[str, int], str]
) -> dict[str, dict[int, str]]:
    """Read partitions from start to end.

    Raises:
      TimeoutError: no record came for IDLE_SECONDS.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "sweep",
            "enable.auto.commit": False,
            "isolation.level": LEVELS[level],
            "enable.partition.eof": True,
            **_QUIET,
        }
    )
    consumer.assign([TopicPartition(*where, OFFSET_BEGINNING) for where in wheres])
    found: dict[str, dict[int, str]] = {name(*where): {} for where in wheres}
    left, idle = set(wheres), 0.0
    try:
        while left:
            messages = consumer.consume(5000, 1.0)
            idle = 0.0 if messages else idle + 1.0
            if idle > IDLE_SECONDS:
                raise TimeoutError(f"{left} could not be read to their ends")
            for message in messages:
                where = (str(message.topic()), int(message.partition() or 0))
                error, value = message.error(), message.value()
                if error is None and value is not None:
                    found[name(*where)][int(message.offset() or 0)] = value.decode()
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    left.discard(where)
    finally:
        consumer.close()
    return found
