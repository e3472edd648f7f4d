"""The disk cache of a `tidegate` process, as its operator sees it."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate
from tidegate_gateway.instance import DataFolderUnusable, hold_cache_folder

DEV = ("dev", "--port", "0", "--admin-port", "0")
RECORDS = 12
SIZE = 400_000
MERGE = ("--runner", "local", "--json")


def value(number: int) -> bytes:
    return bytes([65 + number]) * SIZE


def produce(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce("t", value(number), partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0


def consume(servers: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "check.crcs": True})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        messages = consumer.consume(RECORDS, PATIENCE_SECONDS)
        return [each.value() or b"" for each in messages]
    finally:
        consumer.close()


def metric(process: Process, name: str) -> int:
    _, text = process.get("/metrics")
    found = re.search(rf"^tidegate_disk_cache_{name} ([0-9.e+]+)$", text, re.MULTILINE)
    assert found is not None, name
    return int(float(found[1]))


def read_until_sent_from_disk(process: Process, expected: list[bytes]) -> None:
    """Read again until most bytes come from the disk, to which they are written a while later."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while metric(process, "sent_bytes_total") <= (RECORDS - 3) * SIZE:
        assert time.monotonic() < deadline
        assert consume(process.servers) == expected


def test_segments_are_kept_on_disk_and_sent_from_there(tmp_path: Path) -> None:
    expected = [value(number) for number in range(RECORDS)]
    cache = tmp_path / "tidegate-data" / "cache"
    with serving(*DEV, cwd=tmp_path) as process:
        produce(process.servers)
        assert tidegate("pipeline", "once", *MERGE, cwd=tmp_path).returncode == 0
    with serving(*DEV, cwd=tmp_path) as process:
        assert consume(process.servers) == expected
        read_until_sent_from_disk(process, expected)
        assert metric(process, "used_bytes") > (RECORDS - 3) * SIZE
    with serving(*DEV, cwd=tmp_path) as process:
        assert consume(process.servers) == expected
        assert metric(process, "hits_total") > 3
        read_until_sent_from_disk(process, expected)
        shutil.rmtree(cache)
        assert consume(process.servers) == expected
        assert metric(process, "damaged_files_total") == 0
    with serving(*DEV, cwd=tmp_path) as process:
        assert consume(process.servers) == expected
        assert process.stop() == (0, "")


def test_a_folder_serves_one_gateway(tmp_path: Path) -> None:
    shared = ("--set", f"disk.cache.dir={tmp_path / 'shared'}")
    with serving(*DEV, *shared, cwd=tmp_path):
        done = tidegate(*DEV, *shared, "--data", "other", cwd=tmp_path)
    assert done.returncode == 1
    assert "Give each a disk.cache.dir of its own" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_that_cannot_be_used_costs_only_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = ("--set", f"disk.cache.dir={tmp_path / 'file' / 'cache'}")
    with serving(*DEV, *broken, cwd=tmp_path) as process:
        assert "disk_cache" not in process.get("/metrics")[1]
        _, errors = process.stop()
    assert "nothing is cached on disk; see disk.cache.dir" in errors


def test_in_memory_nothing_is_on_disk(tmp_path: Path) -> None:
    with serving(*DEV, "--memory", cwd=tmp_path) as process:
        assert "disk_cache" not in process.get("/metrics")[1]
    assert not list(tmp_path.iterdir())


def test_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    held = hold_cache_folder(tmp_path / "a" / "cache")
    with pytest.raises(DataFolderUnusable):
        hold_cache_folder(held.path)
    held.close()
    hold_cache_folder(held.path).close()
    assert held.path.stat().st_mode & 0o077 == 0
