"""Readers of librdkafka: tails, passes that begin anywhere, and requests for stable offsets."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from typing import Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from histories.librdkafka_writers import QUIET, consumer_settings
from histories.saying import now_ms, say
from histories.topics import LEVELS, Words, place, places

CONSUME_SECONDS: Final = 0.2
PAUSE_SECONDS: Final = (4.0, 12.0)
ASK_SECONDS: Final = 1.0
MOST: Final = 500
REACH: Final = 3000
"""Most passes begin at most so many offsets before the end; one of ten begins at the start."""
WHOLE_OF_HUNDRED: Final = 10


class Reader:
    """Prints the records that a consumer gets."""

    def __init__(self, words: Words, kind: str, level: str) -> None:
        self.name = f"{words.family}-{kind}-{level}"
        self.level = level
        self.consumer = Consumer(
            consumer_settings(
                words,
                f"{kind}-{level}",
                **{"isolation.level": LEVELS[level], "enable.partition.eof": kind != "tail"},
            )
        )

    def begin(self, offsets: dict[str, int]) -> None:
        """Begin a pass at an offset of each place."""
        begins = ",".join(f"{name}:{offset}" for name, offset in offsets.items())
        say("P", self.name, self.level, begins)
        where = places()
        self.consumer.assign(
            [TopicPartition(*where[name], offset) for name, offset in offsets.items()]
        )

    def ends(self) -> dict[str, int]:
        """Return the end of each place at this isolation level.

        Raises:
          KafkaException: no gateway answers it now.
        """
        found: dict[str, int] = {}
        for name, where in places().items():
            marks = self.consumer.get_watermark_offsets(TopicPartition(*where), timeout=10)
            found[name] = marks[1]
        return found

    def take(self) -> set[str]:
        """Print the records that came; return the partitions that are read to their end."""
        got: defaultdict[str, list[str]] = defaultdict(list)
        ended: set[str] = set()
        for message in self.consumer.consume(MOST, CONSUME_SECONDS):
            error = message.error()
            if error is None:
                got[_place(message)].append(f"{message.offset()}={_value(message)}")
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(_place(message))
            else:
                say("E", self.name, "poll", error.name())
        for name, pairs in got.items():
            say("R", self.name, name, *pairs)
        return ended


def _place(message: Message) -> str:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return place(topic, partition)


def _value(message: Message) -> str:
    value = message.value()
    return "" if value is None else value.decode()


def follow(words: Words, level: str, end: threading.Event) -> None:
    """Read everything as it comes."""
    reader = Reader(words, "tail", level)
    while not end.is_set():
        try:
            reader.begin(reader.ends() if words.life else dict.fromkeys(places(), 0))
            break
        except KafkaException as error:
            say("E", reader.name, "ends", error.args[0].name())
    while not end.is_set():
        reader.take()
    reader.consumer.close()


def read_again(words: Words, end: threading.Event) -> None:
    """Read from random offsets to the end, again and again, at a random isolation level."""
    readers = [Reader(words, "again", level) for level in LEVELS]
    source = random.Random(f"{words.seed} again {words.life}")
    while not end.wait(source.uniform(*PAUSE_SECONDS)):
        reader = readers[source.randrange(3) % 2]
        try:
            ends = reader.ends()
        except KafkaException as error:
            say("E", reader.name, "ends", error.args[0].name())
            continue
        reach = max(ends.values()) if source.randrange(100) < WHOLE_OF_HUNDRED else REACH
        reader.begin({name: max(0, last - source.randint(0, reach)) for name, last in ends.items()})
        left = set(ends)
        while left and not end.is_set():
            left -= reader.take()
        reader.consumer.unassign()
    for reader in readers:
        reader.consumer.close()


def ask_for_stable(words: Words, end: threading.Event) -> None:
    """Ask for the last stable offsets, again and again."""
    admin = AdminClient({"bootstrap.servers": words.bootstrap, **QUIET})
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(*where): latest for where in places().values()}
    while not end.wait(ASK_SECONDS):
        sent_ms = now_ms()
        futures = admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=8
        )
        found: list[str] = []
        for where, future in futures.items():
            try:
                offset = future.result().offset
            except KafkaException as error:
                say("E", f"{words.family}-asker", "offsets", error.args[0].name())
                continue
            if offset >= 0:  # negative: another partition of the answer had an error
                found.append(f"{place(where.topic, where.partition)}:{offset}")
        if found:
            say("L", sent_ms, ",".join(found))
