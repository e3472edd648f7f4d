"""`tidegate topic repair --bring-back`: skipped records return once their objects exist again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING

from tests.commands.topics.test_topic_repair import (
    DEV,
    OBJECTS,
    TOPIC,
    consumed,
    damage,
    inspected,
    keys,
    produced,
    repaired,
)
from tests.worlds.app_world import serving, tidegate
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway.cli.topic.bring_back import exit_code, told
from tidegate_gateway.cli.topic.kept_text import KeptOutcome, kept_summary
from tidegate_gateway.cli.topic.repair_text import NOT_TOLD
from tidegate_gateway.tools.kept import Ended, KeptRun
from tidegate_gateway.tools.readability import Problem


def test_records_come_back_once_their_objects_are_there_again(tmp_path: Path) -> None:
    """The lost objects are the first one, whose skip moves the log start, and one in the middle."""
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, 5)
        process.stop()
    first, _, middle, *_ = keys(tmp_path)
    away(tmp_path, first, middle)

    with serving(*DEV, cwd=tmp_path) as process:
        code, found = repaired(tmp_path, "--skip", "--yes")
        assert (code, found["skipped_records"]) == (0, 20)
        left = [each for each in range(50) if each // 10 not in (0, 2)]
        assert consumed(process, 30, OFFSET_BEGINNING) == left
        is_kept(tmp_path, (0, 10, first), (20, 30, middle))

        # No object is back yet.
        code, found = repaired(tmp_path, "--bring-back", "--yes")
        assert (code, found["brought_back_records"]) == (1, 0)
        assert [each["problem"] for each in found["kept"]] == ["missing", "missing"]
        assert consumed(process, 30, OFFSET_BEGINNING) == left

        there_again(tmp_path, middle)
        is_asked(tmp_path, middle)
        back = tidegate("topic", "repair", TOPIC, "--bring-back", "--yes", cwd=tmp_path)
        assert back.returncode == 1
        assert "10 records were brought back. Consumers that have passed" in back.stdout
        assert back.stdout.endswith("10 records stay skipped, and are kept.\n")
        assert consumed(process, 40, OFFSET_BEGINNING) == list(range(10, 50))

        produced(process, 1, first=50)
        there_again(tmp_path, first)
        code, found = repaired(tmp_path, "--bring-back", "--yes")
        assert (code, found["brought_back_records"]) == (0, 10)
        assert consumed(process, 60) == list(range(60))
        is_kept(tmp_path)
        process.stop()
    with serving(*DEV, cwd=tmp_path) as process:
        assert consumed(process, 60) == list(range(60))


def away(folder: Path, *objects: str) -> None:
    for key in objects:
        (folder / OBJECTS / key).rename(folder / Path(key).name)


def there_again(folder: Path, key: str) -> None:
    (folder / Path(key).name).rename(folder / OBJECTS / key)


def is_kept(folder: Path, *ranges: tuple[int, int, str]) -> None:
    code, found = repaired(folder)
    assert code == 0
    assert [
        (each["base_offset"], each["next_offset"], each["object"]) for each in found["kept"]
    ] == list(ranges)


def is_asked(folder: Path, readable: str) -> None:
    asked = tidegate("topic", "repair", TOPIC, "--bring-back", cwd=folder)
    assert asked.returncode == 1
    assert f"offsets 20 to 29: 10 records can be read; {readable}" in asked.stdout
    assert "offsets 0 to 9: 10 records cannot be read; " in asked.stdout
    assert asked.stdout.endswith("20 records stay skipped, and are kept.\n")
    assert "Bring 10 records back? There is no terminal" in asked.stderr


def test_a_damaged_object_comes_back_once_it_is_whole(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, 3)
        process.stop()
    key = keys(tmp_path)[1]
    whole = (tmp_path / OBJECTS / key).read_bytes()
    damage(tmp_path / OBJECTS / key, 100)

    with serving(*DEV, cwd=tmp_path) as process:
        assert repaired(tmp_path, "--skip", "--yes")[0] == 0
        assert inspected(tmp_path, key)[1]["cluster"]["standing"] == "kept"
        shown = tidegate("topic", "repair", TOPIC, cwd=tmp_path)
        assert "All records can be read.\n10 skipped records are kept, " in shown.stdout
        code, found = repaired(tmp_path, "--bring-back", "--yes")
        assert (code, [each["problem"] for each in found["kept"]]) == (1, ["corrupt"])

        (tmp_path / OBJECTS / key).write_bytes(whole)
        assert repaired(tmp_path, "--bring-back", "--yes")[0] == 0
        assert consumed(process, 30) == list(range(30))
        assert repaired(tmp_path, "--bring-back", "--yes")[0] == 0


def test_records_are_given_up_and_a_compacted_topic_asks_for_a_word_more(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produced(process, 3)
        process.stop()
    first, second = keys(tmp_path)[:2]
    away(tmp_path, first, second)

    with serving(*DEV, cwd=tmp_path) as process:
        assert repaired(tmp_path, "--skip", "--yes", "--partition", "0")[0] == 0
        compacted = ("topic", "alter", TOPIC, "--config", "cleanup.policy=compact")
        done = tidegate(*compacted, "--bootstrap", process.servers, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        there_again(tmp_path, second)

        code, found = repaired(tmp_path, "--bring-back", "--yes")
        assert (code, found["is_compacted"], found["brought_back_records"]) == (1, True, 0)
        code, found = repaired(tmp_path, "--bring-back", "--yes", "--even-if-compacted")
        assert (code, found["brought_back_records"]) == (1, 10)
        assert consumed(process, 20, OFFSET_BEGINNING) == list(range(10, 30))

        code, found = repaired(tmp_path, "--give-up", "--yes")
        assert (code, found["given_up_records"]) == (0, 10)
        given_up = tidegate("topic", "repair", TOPIC, "--give-up", cwd=tmp_path)
        assert given_up.stdout.startswith("No skipped records are kept.\n")
        assert consumed(process, 20, OFFSET_BEGINNING) == list(range(10, 30))

        told = tidegate("topic", "repair", TOPIC, "--skip", "--give-up", cwd=tmp_path)
        assert (told.returncode, told.stdout) == (2, "")
        assert "give only one of --skip, --bring-back and --give-up" in told.stderr


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_compacted_topic_is_explained(is_compacted: bool) -> None:
    text = kept_summary(KeptOutcome("t", [], Ended(is_compacted=is_compacted)), brings_back=True)
    assert ("--even-if-compacted" in text) == is_compacted


def test_what_cannot_be_read_once_more_is_told() -> None:
    row = RunRow(0, 5, 1, 0, 10, 0, 0, 0)
    runs = [KeptRun(at, at, row, "key", 5) for at in range(2)]
    again = replace(runs[1], problem=Problem.UNKNOWN, reason="no answer")
    outcome = KeptOutcome("t", runs, Ended(done=runs[:1], unreadable=[again]), after=runs[1:])
    outcome.see_unreadable([again])
    assert exit_code(outcome) == NOT_TOLD
    shown = json.loads(told(outcome, brings_back=True, as_json=True))["kept"]
    assert [each["problem"] for each in shown] == [None, "unknown"]


def test_what_expired_meanwhile_is_not_said_to_be_kept() -> None:
    row = RunRow(0, 5, 1, 0, 10, 0, 0, 0)
    runs = [KeptRun(at, at, row, "key", 5) for at in range(3)]
    outcome = KeptOutcome("t", runs, Ended(done=runs[:1]), after=runs[:2])
    text = kept_summary(outcome, brings_back=False)
    assert text == "5 records were given up.\n5 records stay skipped, and are kept."
