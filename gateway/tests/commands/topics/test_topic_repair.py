"""`tidegate topic repair` and `inspect --log`, as an operator runs them, on files and SQLite."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate

DEV = ("dev", "--port", "0", "--admin-port", "0", "--set", "wal.inline.max.bytes=0")
"""With this setting, all records are in the object store at once."""
LOG = "sqlite:tidegate-data/metadata.db"
OBJECTS = Path("tidegate-data/objects")
TOPIC = "orders"
# By default the proof of a loss takes minutes.
BRIEFLY = ("--proof-seconds", "1")


def produced(process: Process, flushes: int, first: int = 0) -> None:
    """Write objects of ten records each."""
    producer = Producer({"bootstrap.servers": process.servers, "enable.idempotence": True})
    for flush in range(flushes):
        for number in range(10):
            producer.produce(TOPIC, str(first + 10 * flush + number))
        assert producer.flush(PATIENCE_SECONDS) == 0


def consumed(process: Process, count: int, offset: int = 0) -> list[int]:
    """Return the values of the next records, which are equal to their offsets."""
    consumer = Consumer({"bootstrap.servers": process.servers, "group.id": "g"})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, offset)])
        messages = consumer.consume(count, PATIENCE_SECONDS)
        assert [each.error() for each in messages] == [None] * count
        values = [int(each.value() or b"") for each in messages]
        assert values == [each.offset() for each in messages]
        return values
    finally:
        consumer.close()


def keys(folder: Path) -> list[str]:
    """Return the WAL objects in the order in which they were written."""
    files = (folder / OBJECTS).rglob("wal/*/*/*")
    return sorted(str(each.relative_to(folder / OBJECTS)) for each in files if each.is_file())


def damage(path: Path, position: int) -> None:
    body = bytearray(path.read_bytes())
    body[position] ^= 1
    path.write_bytes(body)


def repaired(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = tidegate("topic", "repair", TOPIC, "--json", *options, *BRIEFLY, cwd=folder)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def inspected(folder: Path, key: str) -> tuple[int, dict[str, Any]]:
    done = tidegate("inspect", key, "--data", "tidegate-data", "--log", LOG, "--json", cwd=folder)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_lost_records_are_shown_and_skipped_while_a_gateway_serves(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, 6)
        assert repaired(tmp_path)[0] == 0
        assert tidegate("topic", "repair", TOPIC, cwd=tmp_path).stdout.endswith(
            "All records can be read.\n"
        )
        process.stop()
    objects = keys(tmp_path)
    assert len(objects) >= 6
    missing, flipped = objects[1], objects[3]
    assert inspected(tmp_path, missing)[1]["cluster"]["standing"] == "live"
    (tmp_path / OBJECTS / missing).unlink()
    damage(tmp_path / OBJECTS / flipped, 100)

    code, found = inspected(tmp_path, flipped)
    assert (code, found["ok"], found["cluster"]["standing"]) == (1, False, "live")
    gone = tidegate("inspect", missing, "--data", "tidegate-data", cwd=tmp_path)
    assert (gone.returncode, gone.stdout) == (2, "")

    with serving(*DEV, cwd=tmp_path) as process:
        assert consumed(process, 10) == list(range(10))
        code, found = repaired(tmp_path)
        assert code == 1
        assert [
            (each["base_offset"], each["next_offset"], each["object"], each["problem"])
            for each in found["unreadable"]
        ] == [(10, 20, missing, "missing"), (30, 40, flipped, "corrupt")]

        asked = tidegate("topic", "repair", TOPIC, "--skip", *BRIEFLY, cwd=tmp_path)
        assert asked.returncode == 1
        assert "partition 0, offsets 10 to 19: 10 records are lost" in asked.stdout
        assert asked.stdout.endswith("Nothing was skipped.\n")
        assert "Proving the loss: look 4 of 4" in asked.stderr
        assert "give --yes" in asked.stderr

        code, found = repaired(tmp_path, "--skip", "--yes")
        assert (code, found["skipped_records"]) == (0, 20)
        assert repaired(tmp_path)[0] == 0
        readable = [each for each in range(60) if each // 10 not in (1, 3)]
        assert consumed(process, 40) == readable
        assert consumed(process, 10, offset=15) == list(range(20, 30))
        assert inspected(tmp_path, flipped)[1]["cluster"]["standing"] == "kept"

        produced(process, 1, first=60)
        assert consumed(process, 50) == [*readable, *range(60, 70)]
        status, metrics = process.get("/metrics")
        assert status == 200
        assert "tidegate_unreadable_fetches" in metrics


def test_repair_does_not_skip_objects_that_lie_below_another_prefix(tmp_path: Path) -> None:
    """A gateway was once started with the other prefix, and left the cluster's marker there."""
    (tmp_path / "wrong").mkdir()
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, 12)
        shutil.copytree(
            tmp_path / OBJECTS,
            tmp_path / "wrong",
            ignore=shutil.ignore_patterns("wal"),
            dirs_exist_ok=True,
        )
        wrong = ("--object-store", "file:wrong")
        told = tidegate("topic", "repair", TOPIC, *wrong, cwd=tmp_path)
        assert told.returncode == 1
        assert "this looks like the wrong prefix or bucket" in told.stdout
        assert "--skip " not in told.stdout
        told = tidegate("topic", "repair", TOPIC, *wrong, "--skip", "--yes", cwd=tmp_path)
        assert told.returncode == 1
        assert told.stdout.endswith(
            " objects that hold them none are in the object store: this looks like the wrong prefix"
            " or bucket. Give the --object-store that the gateways have. If these objects are"
            " really lost, --even-if-many skips them. Nothing was skipped.\n"
        )
        code, found = repaired(tmp_path, *wrong, "--skip", "--yes")
        assert (code, found["skipped_records"], found["looks_like_the_wrong_store"]) == (1, 0, True)
        assert consumed(process, 120) == list(range(120))


def test_the_pipeline_goes_on_around_a_hole(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, 5)
        process.stop()
    (tmp_path / OBJECTS / keys(tmp_path)[2]).unlink()
    with serving(*DEV, cwd=tmp_path) as process:
        merge = ("pipeline", "once", "--runner", "local", "--log-level", "error", "--json")
        assert json.loads(tidegate(*merge, cwd=tmp_path).stdout)["failed"] == 1
        assert repaired(tmp_path, "--skip", "--yes", "--partition", "0")[0] == 0

        done = json.loads(tidegate(*merge, cwd=tmp_path).stdout)

        assert (done["failed"], done["left_runs"], done["units"]) == (0, 0, 2)
        assert consumed(process, 40) == [each for each in range(50) if each // 10 != 2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("other",), "there is no topic other"),
        ((TOPIC, "--partition", "1"), "--partition 1: orders has 1 partitions"),
        ((TOPIC, "--object-store", "file:empty"), "the object store belongs to no cluster"),
        ((TOPIC, "--skip", "--json"), "--json cannot ask for a confirmation"),
        ((TOPIC, "--log", "sqlite:nothing.db"), "there is no file nothing.db"),
    ],
)
def test_repair_says_what_an_operator_can_mend(
    tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, 1)
        done = tidegate("topic", "repair", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
