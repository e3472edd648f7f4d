"""`tidegate pipeline once` obeys the static settings of a gateway; all in processes."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from tests.worlds.app_world import PATIENCE_SECONDS, serving, tidegate

WEEK = str(7 * 86_400_000)
LAG = "log.cleaner.min.compaction.lag.ms"
VERSIONS = [b"version %d" % number for number in range(5)]


def write_versions(servers: str, topic: str) -> None:
    """Write several versions of one key, each in a separate batch."""
    producer = Producer({"bootstrap.servers": servers})
    for each in VERSIONS:
        producer.produce(topic, each, key="a")
        assert producer.flush(PATIENCE_SECONDS) == 0


def read(servers: str, topic: str) -> list[bytes | None]:
    """Return the topic's values, up to the last one that was written."""
    settings = {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    found: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while not found or found[-1] != VERSIONS[-1]:
            [message] = consumer.consume(1, PATIENCE_SECONDS)
            assert message.error() is None
            found.append(message.value())
    finally:
        consumer.close()
    return found


def read_until(servers: str, topic: str, expected: list[bytes]) -> list[bytes | None]:
    """Read until the gateway has folded the segments, which another process appended to the log.

    Returns the values of the last read.
    """
    until = monotonic() + PATIENCE_SECONDS
    found = read(servers, topic)
    while found != expected and monotonic() < until:
        found = read(servers, topic)
    return found


@pytest.mark.parametrize(("static", "kept"), [((), 1), (("--set", f"{LAG}={WEEK}"), 5)])
def test_once_obeys_a_static_compaction_lag_of_the_gateway(
    tmp_path: Path, static: tuple[str, ...], kept: int
) -> None:
    where = (
        "--set", "listeners=PLAINTEXT://127.0.0.1:0",
        "--set", "admin.listener=",
        "--set", "wal.inline.max.bytes=0",
        "--set", f"metadata.log=sqlite:{tmp_path}/log.db",
        "--set", f"object.store=file:{tmp_path}/objects",
    )  # fmt: skip
    data = ("--data", str(tmp_path / "data"))
    with serving("serve", *data, *where, *static, cwd=tmp_path) as process:
        admin = AdminClient({"bootstrap.servers": process.servers})
        topic = NewTopic("t", 1, config={"cleanup.policy": "compact"})
        admin.create_topics([topic])["t"].result(PATIENCE_SECONDS)
        resource = ConfigResource("topic", "t")
        [shown] = admin.describe_configs([resource]).values()
        lag = shown.result(PATIENCE_SECONDS)["min.compaction.lag.ms"]
        assert (lag.value, lag.source) == ((WEEK, 4) if static else ("0", 5))
        write_versions(process.servers, "t")
        done = tidegate(
            "pipeline", "once", "--runner", "local",
            "--log", f"sqlite:{tmp_path}/log.db", "--object-store", f"file:{tmp_path}/objects",
            cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert read_until(process.servers, "t", VERSIONS[-kept:]) == VERSIONS[-kept:]
