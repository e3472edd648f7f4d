"""Reads streams from their start to their end, while they are written, and judges each record."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from pipeline.ledger import Found, Judge, Ledger
from pipeline.load import RECONNECT, quiet
from pipeline.records import Expected

PATIENCE_SECONDS = 120.0
PAUSE_SECONDS = 5.0
PROBLEMS_SHOWN = 5


@dataclass(slots=True)
class Reading:
    """records: how many were read and compared.  problems: sentences; empty if there are none."""

    records: int = 0
    problems: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Kept:
    """The records that may be missing.

    retention_ms: records older than this; None: no records by age.  is_cut: whether DeleteRecords
    may have removed some.
    """

    retention_ms: int | None = None
    is_cut: bool = False


def read_all(bootstrap: str, ledgers: Sequence[Ledger], kept: Kept = Kept()) -> Reading:
    """Read streams of one topic, each from its start until the present end is reached.

    Raises:
      TimeoutError: the read makes no progress.
    """
    consumer = _consumer(bootstrap)
    try:
        judges, ends = _read(consumer, ledgers)
        reading = Reading()
        for ledger in ledgers:
            judge, end = judges[ledger.partition], ends[ledger.partition]
            place = TopicPartition(ledger.topic, ledger.partition)
            low = _watermarks(consumer, place)[0]
            problems = [*judge.problems, *_verdict(ledger, judge, end, low, kept)]
            reading.problems += islice(problems, PROBLEMS_SHOWN)
            reading.records += judge.records
            judge.adopt()
        return reading
    finally:
        consumer.close()


def _verdict(ledger: Ledger, judge: Judge, end: int, low: int, kept: Kept) -> list[str]:
    if ledger.is_compacted:
        return list(judge.lost_keys(end))
    problems = [
        f"{ledger.name}: offsets {first} to {following - 1} are missing (log start {low})"
        for first, following in [*judge.gaps, (judge.next_offset, end)]
        if following > max(first, low)
    ]
    problems += [
        f"{ledger.name}: record {ledger.at[offset]} at offset {offset} is missing"
        for offset in islice(judge.missing(end), PROBLEMS_SHOWN)
        if offset >= low
    ]
    is_whole = kept.retention_ms is None and not kept.is_cut
    if is_whole and judge.start:
        problems.append(f"{ledger.name} begins at {judge.start}")
    if kept.retention_ms is not None:
        gone = (ledger.timestamps[number] for at, number in ledger.at.copy().items() if at < low)
        if max(gone, default=0) > time.time() * 1000 - kept.retention_ms:
            problems.append(f"{ledger.name}: what is below {low} was deleted too early")
    return problems


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "check.crcs": True,
            "socket.timeout.ms": 10_000,
            "queued.max.messages.kbytes": 16384,
            **RECONNECT,
        },
        logger=quiet,
    )


def _read(consumer: Consumer, ledgers: Sequence[Ledger]) -> tuple[dict[int, Judge], dict[int, int]]:
    """Return by partition the judge of all its records, and the offset where the reading ended."""
    topic = ledgers[0].topic
    judges: dict[int, Judge] = {}
    wanted: dict[int, int] = {}
    for each in ledgers:
        place = TopicPartition(topic, each.partition)
        low, wanted[each.partition] = _watermarks(consumer, place)
        judges[each.partition] = Judge(each, low)
    reached = {each: judges[each].start for each in judges}
    ends: dict[int, int] = {}
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in judges])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ends) < len(judges):
        for message in consumer.consume(5000, 0.5):
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            if _is_end(message):
                reached[partition] = max(reached[partition], offset)
            elif message.error() is None and partition not in ends:
                judges[partition].take(_found(message))
                reached[partition] = offset + 1
                deadline = time.monotonic() + PATIENCE_SECONDS
        for partition in judges.keys() - ends.keys():
            # Where the last answer ended: what hides a record of before may lie behind the first.
            place = TopicPartition(topic, partition)
            high = max(consumer.get_watermark_offsets(place, cached=True)[1], wanted[partition])
            if reached[partition] >= high:
                ends[partition] = reached[partition]
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: reading stopped at {reached} of {wanted}")
    return judges, ends


def _watermarks(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Return log start offset and high watermark; try again if the gateway is down.

    librdkafka does not wait for metadata then, but fails with an unknown partition.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            low, high = consumer.get_watermark_offsets(place, timeout=10)
            return low, high
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def _found(message: Message) -> Found:
    record = Expected(
        message.key(), message.value(), int(message.timestamp()[1]), message.headers()
    )
    return Found(int(message.offset() or 0), record)


class SteadyReader:
    """Reads some streams of one topic again and again in a thread, until finish()."""

    def __init__(self, bootstrap: str, ledgers: Sequence[Ledger]) -> None:
        self._bootstrap = bootstrap
        self._ledgers = ledgers
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self.total = Reading()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> Reading:
        """Stop after the present reading; return the findings."""
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS * 2)
        self.check()
        return self.total

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stop.wait(PAUSE_SECONDS):
                reading = read_all(self._bootstrap, self._ledgers)
                self.total.records += reading.records
                self.total.problems += reading.problems
        except BaseException as error:
            self._error = error
