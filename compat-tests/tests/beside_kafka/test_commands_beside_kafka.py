"""Our commands for topics, records and groups print the same at Apache Kafka and at a gateway."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from threading import Timer
from time import monotonic

import pytest
from confluent_kafka import Consumer, TopicPartition
from harness import install
from harness.broker import running

from tests.worlds.forked_process import run_tidegate, start_tidegate
from tidegate_coordination.client.producer.partitioner import partition_of

SECONDS = 60.0
PARTITIONS = 3
"""Of orders."""
Answer = tuple[int, str, str]
_MASKS = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "<time>"),
    (r'"timestamp": \d{13}', '"timestamp": <time>'),
    (r"topic id    \S{22}", "topic id    <id>"),
    (r'"topic_id": "\S{22}"', '"topic_id": <id>'),
    (r" in topic partition compacted-0", ""),  # Kafka's text names the place, ours does not
    (r"reader-[0-9a-f-]{36}", "<member>"),
)
SEEK = "group seek g orders"
# Command lines with their standard input.
SCRIPT: list[tuple[str, bytes]] = [
    ("topic create orders --partitions 3 --config retention.ms=600000000", b""),
    ("topic create orders", b""),
    ("topic create orders --if-not-exists --json", b""),
    ("topic create bad/name", b""),
    ("topic create wrong --config no.such=1", b""),
    ("topic create wrong --config retention.ms=soon", b""),
    ("topic create compacted --partitions 1 --config cleanup.policy=compact", b""),
    ("topic create small --partitions 1 --config max.message.bytes=300", b""),
    ("topic list", b""),
    ("topic list --json", b""),
    ("topic describe orders", b""),
    ("topic describe orders --json", b""),
    ("topic describe missing", b""),
    ("topic produce orders --key-separator :", b"a:one\nb:two\nc:three\nd:four\na:\xff\x1b[2J\n"),
    ("topic produce orders --partition 2 --header n=v --compression gzip", b"x\r\ny"),
    ("topic produce orders --partition 2 --compression snappy --json", b"x\ny\n"),
    ("topic produce orders --partition 2 --compression lz4", b"x\n" * 200),
    ("topic produce orders --partition 1 --compression zstd", b"x\n" * 200),
    ("topic produce orders --partition 7", b"x\n"),
    ("topic produce orders --key-separator :", b"a:1\nb\n"),
    ("topic produce compacted --key-separator : --null-marker NULL", b"a:1\na:NULL\n"),
    ("topic produce compacted", b"no key\n"),
    ("topic produce small", b"1\n2\n" + b"x" * 500 + b"\n4\n"),
    ("topic consume small --values", b""),
    ("topic consume compacted --json", b""),
    ("topic produce made", b"one\n"),
    ("topic consume made --values", b""),
    ("topic consume orders --partition 0 --partition 2 --max 6", b""),
    ("topic consume orders --partition 0 --json", b""),
    ("topic consume orders --partition 2 --from 203 --values", b""),
    ("topic consume orders --partition 1 --from latest", b""),
    ("topic consume orders --from 2090-01-01", b""),
    ("topic consume orders --partition 1 --from 99999", b""),
    ("topic consume orders --partition 5", b""),
    ("topic consume missing", b""),
    ("group list", b""),
    ("group lag g", b""),
    ("group describe g", b""),
    (f"{SEEK} --to latest --dry-run", b""),
    (f"{SEEK} --to latest --yes", b""),
    (f"{SEEK} --to -3 --yes --json", b""),
    (f"{SEEK}:1 --to +2 --yes", b""),
    (f"{SEEK}:1 --to 5000 --yes", b""),
    (f"{SEEK}:1 --to @0 --yes", b""),
    (f"{SEEK}:2 --to 2090-01-01 --yes", b""),
    (f"{SEEK}:7 --to 1 --yes", b""),
    ("group seek new orders --to +1 --yes", b""),
    ("group seek g missing --to 0 --yes", b""),
    ("group lag g", b""),
    ("group lag g --json", b""),
    ("group describe g", b""),
    ("group list --json", b""),
]
LIVE: list[tuple[str, bytes]] = [
    ("group list", b""),
    ("group lag live", b""),
    ("group lag live --json", b""),
    ("group describe live", b""),
    ("group describe live --json", b""),
    ("group seek live orders --to 0 --dry-run", b""),
    ("group seek live orders --to 0 --yes", b""),
    ("group delete live --yes", b""),
]
END: list[tuple[str, bytes]] = [
    ("group delete g none --yes", b""),
    ("topic alter orders --partitions 2", b""),
    ("topic alter orders --partitions 4 --config cleanup.policy=compact,delete", b""),
    ("topic alter orders --delete-config retention.ms --json", b""),
    ("topic alter orders --config retention.ms=no", b""),
    ("topic alter missing --config retention.ms=1", b""),
    ("topic describe orders", b""),
    ("topic delete orders compacted small made --yes", b""),
    ("topic delete orders --yes", b""),
]


def run(bootstrap: str, words: str, text: bytes) -> Answer:
    done = run_tidegate([*words.split(), "--bootstrap", bootstrap], seconds=SECONDS, given=text)
    texts = (each.decode().replace(bootstrap, "<address>") for each in (done.stdout, done.stderr))
    return (done.returncode, *map(masked, texts))  # type: ignore[return-value]


def masked(text: str) -> str:
    for pattern, mask in _MASKS:
        text = re.sub(pattern, mask, text)
    return text


@contextmanager
def member(
    bootstrap: str, group: str = "live", protocol: str = "classic", *, reads: bool = True
) -> Generator[Consumer]:
    """A member of a group that reads orders; by default it has read and committed one record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe(["orders"])
        if reads:
            found = consumer.poll(SECONDS)
            assert found is not None
            assert found.error() is None
            # The consumer may have read any partition first, so the test commits one by name.
            consumer.commit(offsets=[TopicPartition("orders", 1, 1)], asynchronous=False)
        yield consumer
    finally:
        consumer.close()


JOINED: list[tuple[str, bytes]] = [
    ("topic consume small --group printed --max 1 --values", b""),
    ("group lag printed", b""),
    ("topic consume small --group printed --json", b""),
    ("topic consume small --group printed", b""),
    ("group lag printed", b""),
    ("group describe printed --json", b""),
    ("topic consume small --group late --from latest", b""),
    ("group lag late", b""),
    ("topic consume missing --group printed", b""),
    ("topic consume small --group printed --partition 0", b""),
]


def together(bootstrap: str) -> Answer:
    """Share a topic between our command and a consumer of librdkafka that comes and goes.

    Return the command's exit code, how many records each of them got, and the lag at the end.
    """
    command = "topic consume orders --group both --follow --json --bootstrap"
    ours: list[str] = []
    theirs: list[str] = []
    words = (*command.split(), bootstrap)
    with start_tidegate(words, stdout=subprocess.PIPE, text=True) as process:
        timer = Timer(SECONDS, process.kill)
        timer.start()
        try:
            printed = process.stdout
            assert printed is not None

            def read(count: int) -> list[str]:
                found = [json.loads(printed.readline()) for _ in range(count)]
                return sorted(f"{each['partition']}:{each['offset']}" for each in found)

            whole = run(bootstrap, "topic consume orders --json", b"")[1]
            ours += read(whole.count("\n"))
            with member(bootstrap, "both", reads=False) as consumer:
                deadline = monotonic() + SECONDS
                while not consumer.assignment() and monotonic() < deadline:
                    assert consumer.poll(0.2) is None  # printed records are committed
                here = {each.partition for each in consumer.assignment()}
                assert 0 < len(here) < PARTITIONS
                _to_each_partition(bootstrap)
                for _ in here:
                    message = consumer.poll(SECONDS)
                    assert message is not None
                    theirs.append(f"{message.partition()}:{message.offset()}")
                    consumer.commit(message=message, asynchronous=False)
                ours += read(PARTITIONS - len(here))
            _to_each_partition(bootstrap)
            ours += read(PARTITIONS)
            process.send_signal(signal.SIGINT)
            code = process.wait(SECONDS)
        finally:
            timer.cancel()
            process.kill()
    assert len({*ours, *theirs}) == len(ours) + len(theirs), "a record came twice"
    lag = run(bootstrap, "group lag both", b"")[1]
    return code, f"{len(ours)} and {len(theirs)} records", lag


def _to_each_partition(bootstrap: str) -> None:
    for partition in range(PARTITIONS):
        words = f"topic produce orders --partition {partition}"
        code, _, error = run(bootstrap, words, b"x\n")
        assert code == 0, error


# Commands for a group of the KIP-848 protocol, which a gateway does not serve.
NEW: list[tuple[str, bytes]] = [
    ("group describe new", b""),
    ("group lag new", b""),
    ("group seek new orders --to 0 --yes", b""),
]


def answers(against: str) -> dict[str, Answer]:
    with running(against) as broker:

        def ran(label: str, calls: list[tuple[str, bytes]]) -> dict[str, Answer]:
            return {
                f"{label} {number}: {words}": run(broker.bootstrap, words, text)
                for number, (words, text) in enumerate(calls)
            }

        found = ran("first", SCRIPT)
        with member(broker.bootstrap):
            found |= ran("live", LIVE)
        found |= ran("joined", JOINED)
        found["together"] = together(broker.bootstrap)
        if against == "kafka":
            with member(broker.bootstrap, "new", "consumer"):
                found |= ran("new", NEW)
        return found | ran("last", END)


@pytest.fixture(scope="module")
def sides() -> tuple[dict[str, Answer], dict[str, Answer]]:
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(f"needs Apache Kafka: {error}")
    return answers("kafka"), answers("tidegate")


def test_both_say_the_same(sides: tuple[dict[str, Answer], dict[str, Answer]]) -> None:
    theirs, ours = sides
    differ = [name for name in ours if theirs[name] != ours[name]]
    texts = [f"{name}\n  {theirs[name]}\n  {ours[name]}" for name in differ]
    assert not differ, "\n".join(texts)
    assert len(ours) == len(SCRIPT) + len(LIVE) + len(JOINED) + 1 + len(END)


def test_groups_of_the_new_protocol_are_left_alone(
    sides: tuple[dict[str, Answer], dict[str, Answer]],
) -> None:
    described, lag, seek = (sides[0][name] for name in sides[0] if name.startswith("new "))
    assert described[0] == 0
    assert "state        Stable\n" in described[1]
    assert lag[0] == 0
    assert "total lag" in lag[1]
    assert (seek[0], seek[1]) == (1, "")
    assert seek[2].startswith("tidegate: group new is Stable: offsets can only be changed while")


def test_keys_are_where_the_clients_of_kafka_put_them(
    sides: tuple[dict[str, Answer], dict[str, Answer]],
) -> None:
    [text] = [answer[1] for name, answer in sides[0].items() if "--partition 0 --json" in name]
    keys = [json.loads(each.replace("<time>", "0"))["key"] for each in text.splitlines()]
    assert sorted(set(keys)) == [each for each in "abcd" if partition_of(each.encode(), 3) == 0]
