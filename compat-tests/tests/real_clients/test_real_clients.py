"""Published clients against a gateway process: they read the records as they were sent.

TIDEGATE_RECORDS sets the number of records for each client (20,000).
"""

from __future__ import annotations

import gc
import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import pytest
from drivers.aio import Aiokafka, Loop
from drivers.kafka_python import KafkaPython
from drivers.librdkafka import Librdkafka
from drivers.member_thread import MemberThread, wait_for
from drivers.records import CODECS, Client, Got, Sent
from harness.broker import running

RECORDS = int(os.environ.get("TIDEGATE_RECORDS", "20000"))
PARTITIONS = 12
STEP_MS = 10
CLIENTS = ("librdkafka", "kafka-python", "aiokafka")


@dataclass(frozen=True, slots=True)
class Written:
    """A topic, and what must be in it: for each partition its records in offset order."""

    client: Client
    topic: str
    expected: dict[int, list[Got]]

    @property
    def started_ms(self) -> int:
        """The first record's time stamp."""
        return self.expected[0][0].timestamp_ms


# kafka-python leaves sockets of abandoned connections to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect garbage after each test, so that its warnings do not appear in another test."""
    yield
    gc.collect()


_numbers = count(1)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A gateway process of this module."""
    with running("tidegate") as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def clients(bootstrap: str) -> Iterator[dict[str, Client]]:
    """All clients by name."""
    loop = Loop()
    yield {
        "librdkafka": Librdkafka(bootstrap),
        "kafka-python": KafkaPython(bootstrap),
        "aiokafka": Aiokafka(bootstrap, loop),
    }
    loop.close()


@pytest.fixture(scope="module", params=CLIENTS)
def written(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Written:
    """A topic that one client wrote, a fifth of it with each codec."""
    # A worker of pytest that runs a part of the module may run this fixture more than once.
    client, topic = clients[request.param], f"written-{request.param}-{next(_numbers)}"
    client.create_topic(topic, PARTITIONS)
    records = numbered(0, RECORDS, int(time.time() * 1000) - RECORDS * STEP_MS)
    return Written(client, topic, send_with_all_codecs(client, topic, records))


def numbered(first: int, count: int, start_ms: int) -> list[Sent]:
    """Return records in turn for all partitions, STEP_MS apart; every seventh has no key."""
    return [
        Sent(
            number % PARTITIONS,
            None if number % 7 == 0 else b"key %d" % (number % 100),
            b"record %d of many, and as dull as they come" % number,
            start_ms + number * STEP_MS,
        )
        for number in range(first, first + count)
    ]


def send_with_all_codecs(
    client: Client, topic: str, records: Sequence[Sent]
) -> dict[int, list[Got]]:
    """Send records with each codec; return the records at their acknowledged offsets."""
    expected: defaultdict[int, list[Got]] = defaultdict(list)
    share = -(-len(records) // len(CODECS))
    for index, codec in enumerate(CODECS):
        part = records[index * share : (index + 1) * share]
        offsets = client.produce(topic, part, codec)
        for each, offset in zip(part, offsets, strict=True):
            got = Got(each.partition, offset, each.key, each.value, each.timestamp_ms)
            expected[each.partition].append(got)
    return dict(expected)


def by_partition(records: Sequence[Got]) -> dict[int, list[Got]]:
    """Return the records of each partition in the order they came."""
    found: defaultdict[int, list[Got]] = defaultdict(list)
    for each in records:
        found[each.partition].append(each)
    return dict(found)


def test_acknowledged_offsets_count_from_zero(written: Written) -> None:
    for records in written.expected.values():
        assert [each.offset for each in records] == list(range(len(records)))


@pytest.mark.parametrize("reader", CLIENTS)
def test_every_client_reads_what_each_wrote(
    written: Written, clients: dict[str, Client], reader: str
) -> None:
    got = clients[reader].read(written.topic, dict.fromkeys(range(PARTITIONS), 0), RECORDS)
    assert by_partition(got) == written.expected


@pytest.mark.parametrize(
    "after_start_ms",
    [-1000, 0, STEP_MS * RECORDS // 2, STEP_MS * RECORDS // 3 + 1, STEP_MS * (RECORDS - 1)],
)
def test_seek_by_time(written: Written, after_start_ms: int) -> None:
    target = written.started_ms + after_start_ms
    found = written.client.offsets_for_time(written.topic, range(PARTITIONS), target)
    wanted = {
        partition: bisect_left([each.timestamp_ms for each in records], target)
        for partition, records in written.expected.items()
    }
    ends = {partition: len(records) for partition, records in written.expected.items()}
    assert found == {
        each: offset if offset < ends[each] else None for each, offset in wanted.items()
    }
    starts = {each: offset for each, offset in wanted.items() if offset < ends[each]}
    count = sum(ends[each] - offset for each, offset in starts.items())
    got = by_partition(written.client.read(written.topic, starts, count))
    assert got == {each: written.expected[each][start:] for each, start in starts.items()}


def test_no_offset_for_a_time_after_the_last_record(written: Written) -> None:
    target = written.started_ms + STEP_MS * RECORDS
    found = written.client.offsets_for_time(written.topic, range(PARTITIONS), target)
    assert found == dict.fromkeys(range(PARTITIONS))


@pytest.mark.parametrize("name", CLIENTS)
def test_group_with_a_member_that_leaves_and_one_that_joins(
    clients: dict[str, Client], name: str
) -> None:
    client, topic, group = clients[name], f"group-{name}", f"members-of-{name}"
    client.create_topic(topic, PARTITIONS)
    scene = _Scene(client, topic, group)
    scene.join(3)
    scene.send(RECORDS // 4)
    scene.wait_until_shared_and_read()
    scene.leave_one()
    scene.send(RECORDS // 4)
    scene.wait_until_shared_and_read()
    scene.join(1)
    scene.send(RECORDS // 4)
    scene.wait_until_shared_and_read()
    scene.leave_all()
    scene.check_all_was_delivered_in_order()
    scene.check_committed()
    scene.send(RECORDS - 3 * (RECORDS // 4))
    scene.check_next_member_gets_only_what_is_new()


class _Scene:
    """A topic that grows and a group that reads it."""

    def __init__(self, client: Client, topic: str, group: str) -> None:
        self.client = client
        self.topic = topic
        self.group = group
        self.members: list[MemberThread] = []
        self.gone: list[MemberThread] = []
        self.expected: dict[int, list[Got]] = {each: [] for each in range(PARTITIONS)}
        self.sent = 0
        self.start_ms = int(time.time() * 1000) - RECORDS * STEP_MS

    def join(self, count: int) -> None:
        for _ in range(count):
            self.members.append(MemberThread(self.client, self.topic, self.group))

    def leave_one(self) -> None:
        member = self.members.pop(0)
        self.gone.append(member)
        member.leave()

    def leave_all(self) -> None:
        while self.members:
            self.leave_one()

    def send(self, count: int) -> None:
        records = numbered(self.sent, count, self.start_ms)
        self.sent += count
        sent = send_with_all_codecs(self.client, self.topic, records)
        for partition, part in sent.items():
            self.expected[partition] += part

    def delivered(self) -> list[Got]:
        return [each for member in (*self.gone, *self.members) for each in member.delivered]

    def wait_until_shared_and_read(self) -> None:
        share = PARTITIONS // len(self.members)
        wait_for(self.members, lambda: all(len(each.assigned) == share for each in self.members))
        wait_for(self.members, lambda: len(set(self.delivered())) == self.sent)
        assert sorted(each for member in self.members for each in member.assigned) == list(
            range(PARTITIONS)
        )

    def check_all_was_delivered_in_order(self) -> None:
        expected = {each for records in self.expected.values() for each in records}
        delivered = self.delivered()
        assert set(delivered) == expected
        refused = sum(each.refused_commits for each in self.gone)
        assert refused or len(delivered) == len(expected)
        for member in self.gone:
            for records in by_partition(member.delivered).values():
                firsts = list(dict.fromkeys(each.offset for each in records))
                assert firsts == sorted(firsts)

    def check_committed(self) -> None:
        committed = self.client.committed(self.topic, self.group, range(PARTITIONS))
        assert committed == {each: len(records) for each, records in self.expected.items()}

    def check_next_member_gets_only_what_is_new(self) -> None:
        before = self.client.committed(self.topic, self.group, range(PARTITIONS))
        new = {each: records[before[each] :] for each, records in self.expected.items()}
        self.join(1)
        [member] = self.members
        count = sum(map(len, new.values()))
        wait_for(self.members, lambda: len(member.delivered) >= count)
        self.leave_all()
        assert by_partition(member.delivered) == new
