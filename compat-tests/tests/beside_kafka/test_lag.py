"""The lag of /metrics/cluster beside Kafka's tool and librdkafka, while a gateway is down."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from faults.world import Gateway
from harness.install import MissingTool
from harness.java_tools.script import TOOLS
from harness.toolbox import Toolbox
from monitoring.firing import becomes
from monitoring.two import kill, two_gateways

from tests.worlds.greetings import PATIENCE_SECONDS, consume
from tests.worlds.pg_server import running_postgres

GROUP: Final = "g"
NONE: Final = "-"  # no committed offset
TOPIC: Final = "greetings"
WRITTEN: Final = (1, 4)
"""Partitions with records, half of them each, so that the group always has lag where it has an
offset.  librdkafka chooses partitions that the group may have read to their ends.
"""
SAMPLE: Final = re.compile(
    r"^kafka_consumergroup_(lag|current_offset)\{(.*)\} (\S+)$", re.MULTILINE
)
Rows = dict[int, tuple[int, int]]
"""Committed offset and lag, by partition."""


@pytest.fixture(scope="module")
def toolbox() -> Iterator[Toolbox]:
    with Toolbox() as box:
        yield box


def write(bootstrap: str, count: int) -> None:
    """Write `count` records."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(TOPIC, str(number), partition=WRITTEN[number % len(WRITTEN)])
    assert producer.flush(PATIENCE_SECONDS) == 0


def by_page(gateway: Gateway) -> Rows:
    """Return the lags on the cluster's page of a gateway."""
    url = f"http://127.0.0.1:{gateway.admin_port}/metrics/cluster"
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    found: dict[str, dict[int, int]] = {"lag": {}, "current_offset": {}}
    for kind, labels, value in SAMPLE.findall(text):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        assert (named["consumergroup"], named["topic"]) == (GROUP, TOPIC)
        found[kind][int(named["partition"])] = int(float(value))
    return {each: (found["current_offset"][each], lag) for each, lag in found["lag"].items()}


def by_tool(box: Toolbox, bootstrap: str) -> Rows:
    """Return the lags that `kafka-consumer-groups.sh --describe` shows."""
    words = ["--bootstrap-server", bootstrap, "--describe", "--group", GROUP]
    printed = box.call(TOOLS["consumer-groups"], words)
    assert printed.status == 0, printed.stderr
    rows = [line.split() for line in printed.stdout.splitlines() if line.startswith(f"{GROUP} ")]
    return {int(row[2]): (int(row[3]), int(row[5])) for row in rows if row[3] != NONE}


def by_librdkafka(bootstrap: str) -> Rows:
    """Return by partition the committed offset, and its distance from the high watermark."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        partitions = consumer.list_topics(TOPIC, 60).topics[TOPIC].partitions
        asked = [TopicPartition(TOPIC, each) for each in partitions]
        found: Rows = {}
        for each in consumer.committed(asked, 60):
            end = consumer.get_watermark_offsets(each, 60)[1]
            if each.offset >= 0:
                found[each.partition] = (each.offset, end - each.offset)
        return found
    finally:
        consumer.close()


def all_show(read: int, box: Toolbox, asked: list[Gateway]) -> None:
    """Check that Kafka's tool, librdkafka and each page show the same rows.

    read: how many records the group has committed.
    """
    bootstrap = f"127.0.0.1:{asked[0].port}"
    rows = by_tool(box, bootstrap)
    assert sum(committed for committed, _ in rows.values()) == read
    assert any(lag for _, lag in rows.values())
    assert by_librdkafka(bootstrap) == rows
    for gateway in asked:
        becomes(same(gateway, rows), f"gateway {gateway.number} does not show {rows}")


def same(gateway: Gateway, rows: Rows) -> Callable[[], bool]:
    """Return whether a gateway's page shows these rows.

    Each gateway reads the log by itself, so its page may show the rows a moment later.
    """
    return lambda: by_page(gateway) == rows


def test_all_show_the_same_lag_before_and_after_a_gateway_is_lost(toolbox: Toolbox) -> None:
    with running_postgres() as postgres:
        log = postgres.new_database()
        try:
            with two_gateways([log, log]) as (first, second):
                first_, second_ = f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"
                write(first_, 100)
                consume(second_, 30)
                all_show(30, toolbox, [first, second])
                kill(first)
                write(second_, 50)
                all_show(30, toolbox, [second])
                consume(second_, 20)
                all_show(50, toolbox, [second])
                first.start()
                consume(first_, 40)
                all_show(90, toolbox, [first, second])
        except MissingTool as error:
            pytest.skip(f"needs Kafka's tools: {error}")
