"""`tidegate log backup`, `restore` and `repair`, as an operator runs them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate
from tidegate_gateway.cli.log.repair_file import put_in_place

DEV = ("dev", "--port", "0", "--admin-port", "0", "--set", "wal.inline.max.bytes=0")
"""With this setting, all records are in the object store at once."""
TOPIC = "greetings"
LOG = Path("tidegate-data/metadata.db")
STORE = "file:tidegate-data/objects"


def produced(process: Process, values: range) -> None:
    settings = {"bootstrap.servers": process.servers, "enable.idempotence": True}
    producer = Producer(settings)
    for value in values:
        producer.produce(TOPIC, str(value))
    assert producer.flush(PATIENCE_SECONDS) == 0


def consumed(process: Process, count: int) -> list[tuple[int, int]]:
    """Return (offset, value) of the first records."""
    consumer = Consumer({"bootstrap.servers": process.servers, "group.id": "g"})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        messages = consumer.consume(count, PATIENCE_SECONDS)
        assert [each.error() for each in messages] == [None] * count
        return [(each.offset() or 0, int(each.value() or b"")) for each in messages]
    finally:
        consumer.close()


def backup(folder: Path) -> dict[str, object]:
    done = tidegate(
        "log", "backup", "--log", f"sqlite:{LOG}", "--object-store", STORE, "--json", cwd=folder
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_log_is_deleted_under_a_running_gateway_and_restored(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        cluster_id = process.said["cluster_id"]
        produced(process, range(50))
        first = backup(tmp_path)
        assert first["cluster_id"] == cluster_id
        produced(process, range(50, 100))
        (tmp_path / LOG).unlink()
        _, errors = process.popen.communicate(timeout=PATIENCE_SECONDS)
        assert process.popen.returncode == 1
        assert "metadata.db was deleted while it was open" in errors
        assert "Traceback" not in errors
    assert not (tmp_path / LOG).exists()

    # No gateway starts on an empty log by mistake, and no object is deleted.
    done = tidegate(*DEV, cwd=tmp_path)
    assert done.returncode == 1
    assert f"cluster {cluster_id} owns this prefix, but the metadata log is empty" in done.stderr
    (tmp_path / LOG).unlink()

    restore = ("log", "restore", "--from", STORE, "--log", f"sqlite:{LOG}")
    done = tidegate(*restore, "--cluster", "other", cwd=tmp_path)
    assert f"the object store is that of cluster {cluster_id}, not of other" in done.stderr
    assert not (tmp_path / LOG).exists()
    done = tidegate(*restore, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["timeline"], report["salvage"]["records"]) == (2, 50)
    done = tidegate(*restore, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "was restored to it already" in done.stderr

    with serving(*DEV, cwd=tmp_path) as process:
        assert process.said["cluster_id"] == cluster_id
        produced(process, range(100, 110))
        assert consumed(process, 110) == [(number, number) for number in range(110)]


def test_a_restore_does_not_end_gateways_that_run(tmp_path: Path) -> None:
    restore = ("log", "restore", "--from", STORE, "--log", "sqlite:new.db")
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, range(10))
        backup(tmp_path)
        before = sorted(tmp_path.rglob("objects/**/*"))
        done = tidegate(*restore, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"gateways of cluster {process.said['cluster_id']} run: 1 at" in done.stderr
        assert process.servers in done.stderr
        assert "--while-gateways-run" in done.stderr
        assert (done.stderr.count("\n"), done.stderr[:10]) == (1, "tidegate: ")
        assert sorted(tmp_path.rglob("objects/**/*")) == before
        assert not (tmp_path / "new.db").exists()

        # A trial restores from a copy of the prefix, which no gateway uses.
        shutil.copytree(tmp_path / STORE[5:], tmp_path / "trial")
        trial = ("--from", "file:trial", "--log", "sqlite:trial.db", "--while-gateways-run")
        done = tidegate("log", "restore", *trial, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        produced(process, range(10, 20))
        assert consumed(process, 20) == [(number, number) for number in range(20)]
        done = tidegate(*restore, "--while-gateways-run", "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["timeline"] == 2
        # After the restore the old log is no longer the log of the cluster.
        for named in ((), ("--object-store", STORE)):
            done = tidegate("log", "move", f"sqlite:{LOG}", "sqlite:moved.db", *named, cwd=tmp_path)
            assert (done.returncode, done.stdout) == (1, "")
            assert "timeline 2" in done.stderr
        assert not (tmp_path / "moved.db").exists()
    trial_dev = ("--object-store", "file:trial", "--log", "sqlite:trial.db", "--data", "other")
    with serving(*DEV, *trial_dev, cwd=tmp_path) as process:
        assert consumed(process, 10) == [(number, number) for number in range(10)]


def test_an_older_copy_elsewhere_is_refused_while_there_are_newer_ones(tmp_path: Path) -> None:
    """The older log names objects that may have been merged and deleted since."""
    elsewhere = tmp_path / "elsewhere"
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, range(10))
        copy = ("log", "backup", "--log", f"sqlite:{LOG}", "--object-store")
        elsewhere.mkdir()
        done = tidegate(*copy, "file:elsewhere", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        produced(process, range(10, 20))
        assert process.stop()[0] == 0  # the stop copies the log, too
    (tmp_path / LOG).unlink()
    restore = ("log", "restore", "--from", "file:elsewhere", "--log", f"sqlite:{LOG}")
    done = tidegate(*restore, "--object-store", STORE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "newer copies" in done.stderr
    assert not (tmp_path / LOG).exists()

    # If the copies beside the records are lost, too, the older copy is the best one left.
    for each in (tmp_path / STORE[5:]).rglob("backup"):
        shutil.rmtree(each)
    done = tidegate(*restore, "--object-store", STORE, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["salvage"]["records"] == 10


def spoilt(folder: Path) -> None:
    """Damage an entry of the log after the backup."""
    with closing(sqlite3.connect(folder / LOG, isolation_level=None)) as connection:
        last = connection.execute("SELECT max(position) FROM entry").fetchone()[0]
        connection.execute("UPDATE entry SET crc = crc + 1 WHERE position = ?", (last - 1,))


def test_a_damaged_log_is_shown_and_repaired_in_place(tmp_path: Path) -> None:
    repair = ("log", "repair", f"sqlite:{LOG}")
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, range(10))
        backup(tmp_path)
        produced(process, range(10, 20))
        done = tidegate(*repair, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Nothing is damaged." in done.stdout
        process.popen.kill()
        process.popen.communicate()
    spoilt(tmp_path)
    done = tidegate(*DEV, cwd=tmp_path)
    assert done.returncode == 1
    assert "fails its checksum" in done.stderr

    before = (tmp_path / LOG).read_bytes()
    done = tidegate(*repair, "--object-store", STORE, cwd=tmp_path)
    assert done.returncode == 1
    assert "1 cannot be read" in done.stdout
    assert "Nothing was changed." in done.stdout
    assert (tmp_path / LOG).read_bytes() == before
    done = tidegate(*repair, "--yes", cwd=tmp_path)
    assert "--yes needs --object-store" in done.stderr

    done = tidegate(*repair, "--yes", "--object-store", STORE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "the repaired one is in its place" in done.stdout
    folder = (tmp_path / LOG).parent
    assert (folder / "metadata.db.damaged-before-timeline-2").exists()
    assert list((folder / "metadata.db.saved").rglob("entries/*"))
    with serving(*DEV, cwd=tmp_path) as process:
        assert consumed(process, 20) == [(number, number) for number in range(20)]


def test_a_repair_to_another_log_and_one_cut_short_before_its_end(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, range(10))
        assert process.stop()[0] == 0
    spoilt(tmp_path)
    repair = ("log", "repair", f"sqlite:{LOG}", "--object-store", STORE, "--yes")
    done = tidegate(*repair, "--to", f"sqlite:{LOG}.repaired", "--save", "saved", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert list((tmp_path / "saved").rglob("entries/*"))
    done = tidegate(*repair, "--to", "sqlite:third.db", cwd=tmp_path)
    assert done.returncode == 1
    assert "timeline 2 owns this prefix, and this is the old log" in done.stderr
    # This state is that of a repair in place that ended before it moved the files.
    done = tidegate(*repair, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "an interrupted repair is now complete" in done.stdout
    with serving(*DEV, cwd=tmp_path) as process:
        assert consumed(process, 10) == [(number, number) for number in range(10)]


def test_a_log_without_a_beginning_is_repaired_after_a_repair_cut_short(tmp_path: Path) -> None:
    """The repair must read the copies of the timeline in use, not of the newer unused timeline."""
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, range(10))
        backup(tmp_path)
        assert process.stop()[0] == 0
    with closing(sqlite3.connect(tmp_path / LOG, isolation_level=None)) as connection:
        connection.execute("UPDATE entry SET crc = crc + 1 WHERE position = 1")
    marker = tmp_path / STORE[5:] / "tidegate-timelines" / "000002.json"
    marker.parent.mkdir()
    marker.write_text("{}")
    repair = ("log", "repair", f"sqlite:{LOG}", "--object-store", STORE, "--yes")
    done = tidegate(*repair, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    with serving(*DEV, cwd=tmp_path) as process:
        assert consumed(process, 10) == [(number, number) for number in range(10)]


def test_the_damaged_log_is_not_overwritten_by_one_that_was_made_since(tmp_path: Path) -> None:
    log, repaired = tmp_path / "log", tmp_path / "repaired"
    log.write_text("damaged")
    repaired.write_text("repaired")
    aside = put_in_place(repaired, log, 2)
    log.write_text("empty")  # the repair was interrupted between both steps, and a gateway started
    repaired.write_text("repaired")
    other = put_in_place(repaired, log, 2)
    assert [each.read_text() for each in (aside, other, log)] == ["damaged", "empty", "repaired"]


def test_a_log_that_a_gateway_has_open_is_not_repaired_in_place(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, range(10))
        with closing(sqlite3.connect(tmp_path / LOG, isolation_level=None)) as connection:
            connection.execute("UPDATE entry SET crc = crc + 1 WHERE position = 2")
        done = tidegate(
            "log", "repair", f"sqlite:{LOG}", "--yes", "--object-store", STORE, cwd=tmp_path
        )
        assert done.returncode == 1
        assert "a gateway has tidegate-data/metadata.db open: stop it first" in done.stderr
        assert not (tmp_path / STORE[5:] / "tidegate-timelines").exists()
        assert process.get("/readyz") == (200, "ready\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("backup", "--log", "sqlite:no.db", "--object-store", "file:o"), "there is no file no.db"),
        (("backup", "--log", "memory:", "--object-store", "file:o"), "there is no folder o; name"),
        (("backup", "--log", "memory:", "--object-store", "file:."), "there is nothing to back up"),
        (("restore", "--from", "file:o", "--log", "sqlite:new.db"), "there is no folder o"),
        (("restore", "--from", "file:.", "--log", "sqlite:new.db"), "belongs to no cluster"),
        (("restore", "--from", "tape:", "--log", "sqlite:new.db"), "names no object store"),
        (("repair", "sqlite:no.db"), "there is no file no.db"),
        (("repair", "memory:", "--yes"), "--yes needs --object-store"),
    ],
)
def test_bad_input_gets_a_sentence_and_makes_nothing(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    done = tidegate("log", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert done.stderr.startswith("tidegate: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_another_clusters_store_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with serving(*DEV, "--data", name, cwd=tmp_path) as process:
            produced(process, range(3))
            assert process.stop()[0] == 0
    before = sorted((tmp_path / "two").rglob("*"))
    done = tidegate(
        "log", "backup", "--log", "sqlite:one/metadata.db", "--object-store", "file:two/objects",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "owns this prefix, and this is cluster" in done.stderr
    done = tidegate(*DEV, "--data", "one", "--object-store", "file:two/objects", cwd=tmp_path)
    assert done.returncode == 1
    assert "owns this prefix, and this is cluster" in done.stderr
    assert sorted((tmp_path / "two").rglob("*")) == before
