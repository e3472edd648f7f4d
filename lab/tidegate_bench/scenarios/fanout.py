"""fanout: the cost of delivery, to 1, 10 and 50 readers of one topic.

From the beginning: records in memory, at full speed.  At the tail: at a pace that clients on this
machine can keep; the cost of taking the records in is measured alone, and subtracted.  Behind: one
reader of records that left memory, after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ..brokers.worlds import World
from ..clients import workers
from ..clients.spec import Produce, Read
from ..lab import Case, Lab, measured, new_topic, rows_of
from ..measure.figures import Observation
from ..measure.table import Report, Row
from . import java_cases

PARTITIONS: Final = 8
JAVA_PARTITIONS: Final = 16
BATCH_BYTES: Final = 1_000_000
# Less than the gateway's cache holds, so that all of it is in memory.
HOT_BYTES: Final = 150_000_000
DELIVERED_AT_TAIL_PER_SECOND: Final = 60_000_000
MOST_AT_TAIL_PER_SECOND: Final = 20_000_000
READERS_A_PROCESS: Final = 25
TAIL_SECONDS: Final = 3.0
NOTE: Final = (
    "tail: cpu ms/MB is what came on top of taking the same records in without readers (for one"
    " reader, a small difference of large figures); with ingest: both, by MB delivered"
)


@dataclass(frozen=True, slots=True)
class _Audience:
    readers: int

    def reads(
        self, broker: World, topic: str, *, max_bytes: int, max_seconds: float, from_start: bool
    ) -> list[Read]:
        """Return the specifications of its processes; max_bytes is a reader's."""
        whole, rest = divmod(self.readers, READERS_A_PROCESS)
        sizes = [READERS_A_PROCESS] * whole + ([rest] if rest else [])
        return [
            Read(broker.bootstrap, topic, PARTITIONS, size, max_bytes, max_seconds, from_start)
            for size in sizes
        ]


def run(lab: Lab) -> Report:
    """Measure at one gateway, all audiences."""
    rows: list[Row] = _java(lab) if lab.options.uses_java else []
    if not lab.options.uses_librdkafka:
        return Report("fanout", rows)
    audiences = [_Audience(each) for each in ((1, 10) if lab.options.quick else (1, 10, 50))]
    with lab.worlds() as brokers:
        for audience in audiences:
            if lab.options.wants(label := f"start {audience.readers} readers"):
                with new_topic(brokers, PARTITIONS) as topic:
                    rows += lab.contest(brokers, _from_start(lab, audience, topic, label))
        for audience in audiences:
            if lab.options.wants(label := f"tail {audience.readers} readers"):
                with new_topic(brokers, PARTITIONS) as topic:
                    rows += lab.contest(brokers, _at_tail(lab, audience, topic, label))
        if lab.options.wants("tail 1 unpaced"):
            with new_topic(brokers, PARTITIONS) as topic:
                rows += lab.contest(brokers, _chase(lab, topic))
    if lab.options.wants("behind 1 reader") and lab.options.bootstrap is None:
        rows += _behind(lab)
    return Report("fanout", rows, (NOTE,))


def _java(lab: Lab) -> list[Row]:
    rows: list[Row] = []
    with lab.worlds() as brokers:
        for label, readers in (("c1 Java, 1 group", 1), ("c3 Java, 3 groups", 3)):
            if lab.options.wants(label):
                with new_topic(brokers, JAVA_PARTITIONS) as topic:
                    fill = partial(_fill_for_java, topic)
                    rows += lab.contest(
                        brokers, java_cases.fanout(lab, label, topic, readers, fill)
                    )
    return rows


def _fill_for_java(topic: str, broker: World, max_bytes: int) -> None:
    _ = workers.run(
        [Produce(broker.bootstrap, topic, JAVA_PARTITIONS, BATCH_BYTES, max_bytes, 60.0)]
    )


def _fill(broker: World, topic: str, max_bytes: int) -> None:
    _ = workers.run([Produce(broker.bootstrap, topic, PARTITIONS, BATCH_BYTES, max_bytes, 60.0)])


def _from_start(lab: Lab, audience: _Audience, topic: str, label: str) -> Case:
    quick = lab.options.quick
    filled = HOT_BYTES // 4 if quick else HOT_BYTES
    each = min(filled, lab.options.lengths.run_bytes // audience.readers)

    def prepare(broker: World) -> None:
        _fill(broker, topic, filled)
        _ = workers.run(
            audience.reads(broker, topic, max_bytes=each, max_seconds=3.0, from_start=True)
        )

    def measure(broker: World) -> Observation:
        seconds = lab.options.lengths.run_seconds
        reads = audience.reads(broker, topic, max_bytes=each, max_seconds=seconds, from_start=True)
        return measured(broker, reads)[0]

    return Case(label, prepare, measure)


def _at_tail(lab: Lab, audience: _Audience, topic: str, label: str) -> Case:
    seconds = min(TAIL_SECONDS, lab.options.lengths.run_seconds)
    pace = min(MOST_AT_TAIL_PER_SECOND, DELIVERED_AT_TAIL_PER_SECOND // audience.readers)

    def write(broker: World) -> Produce:
        return Produce(
            broker.bootstrap,
            topic,
            PARTITIONS,
            100_000,
            int(pace * seconds),
            seconds + 5,
            bytes_per_second=pace,
        )

    def prepare(broker: World) -> None:
        _ = workers.run([replace(write(broker), max_bytes=pace)])

    def measure(broker: World) -> Observation:
        alone, _ = measured(broker, [write(broker)])
        reads = audience.reads(
            broker, topic, max_bytes=int(pace * seconds), max_seconds=seconds + 2, from_start=False
        )
        together, told = measured(broker, [write(broker), *reads])
        delivered = sum(each.get("payload_bytes", 0) for each in told[1:])
        return _less(together, alone, delivered, told[1].get("seconds", 0.0))

    return Case(label, prepare, measure)


def _less(together: Observation, alone: Observation, delivered: int, seconds: float) -> Observation:
    """Return the cost of the delivery alone."""

    def minus(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else one - other

    both = together.server_cpu
    more = {} if both is None or not delivered else {"with ingest": both * 1e9 / delivered}
    return replace(
        together,
        more=more,
        payload_bytes=delivered,
        seconds=seconds,
        server_cpu=minus(together.server_cpu, alone.server_cpu),
        store_cpu=None,
        requests=minus(together.requests, alone.requests),
        puts=None,
    )


def _chase(lab: Lab, topic: str) -> Case:
    """One reader at the tail of a producer without a pace: the slower of the two sets the speed."""
    lengths = lab.options.lengths

    def prepare(broker: World) -> None:
        _fill(broker, topic, lengths.warm_bytes)

    def measure(broker: World) -> Observation:
        size, seconds = lengths.run_bytes, lengths.run_seconds
        write = Produce(broker.bootstrap, topic, PARTITIONS, BATCH_BYTES, size, seconds)
        read = Read(broker.bootstrap, topic, PARTITIONS, 1, size, seconds + 2, from_start=False)
        seen, told = measured(broker, [write, read])
        delivered, took = told[1].get("payload_bytes", 0), told[1].get("seconds", 0.0)
        return replace(seen, payload_bytes=delivered, seconds=took)

    return Case("tail 1 unpaced (with ingest)", prepare, measure)


def _behind(lab: Lab) -> list[Row]:
    """Restart the gateway before each run, so that its memory is empty."""
    lengths = lab.options.lengths
    seen: list[Observation] = []
    with lab.gateway() as gateway, new_topic([gateway.world], PARTITIONS) as topic:
        _fill(gateway.world, topic, lengths.run_bytes)
        for number in range(lengths.runs):
            gateway.stop()
            gateway.start()
            read = Read(
                gateway.world.bootstrap,
                topic,
                PARTITIONS,
                1,
                lengths.run_bytes,
                lengths.run_seconds,
                from_start=True,
            )
            seen.append(measured(gateway.world, [read])[0])
            lab.say(f"behind 1 reader: run {number + 1}")
    return rows_of("behind 1 reader", ["tidegate"], [seen])
