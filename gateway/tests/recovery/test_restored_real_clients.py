"""A real consumer across a restore detects the truncation, and never gets another record
instead.
"""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate

TOPIC = "greetings"
LOG = "tidegate-data/metadata.db"
STORE = "file:tidegate-data/objects"
BACKED_UP, LOST, WRITTEN_ANEW = 10, 10, 30
TRUNCATED = (-1, -1)


def dev(port: str) -> tuple[str, ...]:
    """Return arguments of a gateway that makes no copies of its log on its own."""
    return ("dev", "--port", port, "--admin-port", "0", "--set", "log.backup.interval.ms=0")


def produced(process: Process, values: range) -> None:
    producer = Producer({"bootstrap.servers": process.servers})
    for value in values:
        producer.produce(TOPIC, str(value))
    assert producer.flush(PATIENCE_SECONDS) == 0


def consumer_of(process: Process, reset: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": process.servers,
            "group.id": reset,
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    return consumer


def polled(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Return (offset, value) of the next records; end with TRUNCATED at a truncation."""
    found: list[tuple[int, int]] = []
    end = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count and time.monotonic() < end:
        message: Message | None = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append((message.offset() or 0, int(message.value() or b"")))
        elif error.code() == KafkaError._AUTO_OFFSET_RESET and "truncation" in error.str():
            return [*found, TRUNCATED]
    return found


def wal_objects(folder: Path) -> set[Path]:
    return {each for each in folder.rglob("*") if each.is_file() and "/wal/" in str(each)}


def test_consumers_that_run_across_a_restore_detect_the_truncation(tmp_path: Path) -> None:
    read = [(number, number) for number in range(BACKED_UP + LOST)]
    with serving(*dev("0"), cwd=tmp_path) as process:
        port = process.servers.rpartition(":")[2]
        produced(process, range(BACKED_UP))
        done = tidegate(
            "log", "backup", "--log", f"sqlite:{LOG}", "--object-store", STORE, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        before = wal_objects(tmp_path)
        produced(process, range(BACKED_UP, BACKED_UP + LOST))
        refuses, again = consumer_of(process, "error"), consumer_of(process, "earliest")
        assert polled(refuses, len(read)) == polled(again, len(read)) == read
        assert process.stop()[0] == 0
    # Later records are lost, too, so that other records get their offsets.
    for each in wal_objects(tmp_path) - before:
        each.unlink()
    (tmp_path / LOG).unlink()
    done = tidegate("log", "restore", "--from", STORE, "--log", f"sqlite:{LOG}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    with serving(*dev(port), cwd=tmp_path) as process:
        produced(process, range(1000, 1000 + WRITTEN_ANEW))
        assert polled(refuses, 1) == [TRUNCATED]
        anew = [(BACKED_UP + at, 1000 + at) for at in range(WRITTEN_ANEW)]
        assert polled(again, WRITTEN_ANEW) == anew
        refuses.close()
        again.close()
