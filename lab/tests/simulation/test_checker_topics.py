"""Histories of created and deleted topics, of times, log starts, ends and high watermarks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.checker_lines import (
    ASSIGN,
    BEGINS,
    HEALED,
    Line,
    created,
    delete,
    end,
    history,
    low,
    poll,
    poll_fails,
    refused,
    retention,
    seek,
    send,
    trim,
)
from tidegate_simulation.checks.checker import check

BAD: dict[str, tuple[str, list[Line]]] = {
    # records
    "a plain batch acknowledged as repeated": ("no offset", [send(1, -1), poll(0, (0, 1))]),
    "an old epoch acknowledged": (
        "zombie write",
        [send(1, 0, producer=[7, 1]), send(2, 1, producer=[7, 0]), poll(0, (0, 1), (1, 2))],
    ),
    "an old epoch refused and read": (
        "zombie write",
        [send(1, 0, producer=[7, 1]), send(2, None, producer=[7, 0]), poll(0, (0, 1), (1, 2))],
    ),
    "the present epoch refused": (
        "refused send",
        [refused(1, "INVALID_PRODUCER_EPOCH", producer=[7, 1])],
    ),
    "a producer unknown": ("refused send", [refused(1, "UNKNOWN_PRODUCER_ID", producer=[7, 0])]),
    "sent by name into another topic": (
        "foreign record",
        [send(1, None, by_name=True), poll(0, (0, 1), key=1)],
    ),
    "acknowledged by name, read from the next life": (
        "foreign record",
        [created(0), send(1, 0, by_name=True), delete(), created(1), poll(0, (0, 1), key=1)],
    ),
    "sent by id, read from the next life": (
        "foreign record",
        [created(0), send(1, None), delete(), created(1), poll(0, (0, 1), key=1)],
    ),
    "in both lives of a topic": (
        "duplicate",
        [
            created(0),
            created(1),
            send(1, None, by_name=True),
            poll(0, (0, 1)),
            poll(0, (0, 1), key=1),
        ],
    ),
    # topics
    "read after it was deleted": (
        "deleted data read",
        [created(0), send(1, 0), poll(0, (0, 1)), delete(), poll(0, (0, 1), process="r2")],
    ),
    "empty, but there, after it was deleted": (
        "deleted data read",
        [created(0), delete(), poll(0)],
    ),
    "written after it was deleted": (
        "deleted topic written",
        [created(0), delete(), send(1, 0)],
    ),
    "unknown to a reader": ("false error", [poll_fails("UNKNOWN_TOPIC_OR_PARTITION")]),
    "its id unknown": ("false error", [created(0), poll_fails("UNKNOWN_TOPIC_ID")]),
    "unknown to a sender": ("false error", [refused(1, "UNKNOWN_TOPIC_OR_PARTITION")]),
    "unknown before it is deleted": (
        "false error",
        [created(0), poll_fails("UNKNOWN_TOPIC_ID"), delete()],
    ),
    "a server error": ("false error", [poll_fails("UNKNOWN_SERVER_ERROR")]),
    "another life deleted": (
        "false error",
        [created(0), created(1), delete(), refused(1, "UNKNOWN_TOPIC_ID", key=1)],
    ),
    # log starts, ends, high watermarks
    "log start falls after DeleteRecords": ("log start fell", [trim(5), low(3)]),
    "log start falls between two questions": ("log start fell", [trim(9), low(9), low(8)]),
    "log start falls below what a poll said": (
        "log start fell",
        [trim(9), poll(9, start=9), low(2)],
    ),
    "log start falls on a connection": (
        "log start fell",
        [trim(9), poll(9, start=9, hw=9, link=1), poll(9, start=4, hw=9, link=1)],
    ),
    "high watermark falls on a connection": (
        "high watermark fell",
        [poll(0, hw=9, link=1), poll(0, hw=8, link=1)],
    ),
    "record at the high watermark": (
        "above high watermark",
        [send(1, 0), poll(0, (0, 1), hw=0)],
    ),
    "log start above where it began": ("log start too high", [BEGINS, low(1_001)]),
    "told that the first offset does not exist": (
        "false out of range",
        [
            BEGINS,
            (
                "r",
                "poll",
                {"key": 0, "position": 1_000},
                ("fail", {"error": "OFFSET_OUT_OF_RANGE"}),
            ),
        ],
    ),
    "log start that no client moved": ("log start too high", [low(1)]),
    "log start above what was asked": ("log start too high", [trim(5), low(6)]),
    "a poll tells of a log start that no client moved": (
        "log start too high",
        [poll(3, start=3)],
    ),
    "end falls": ("stale end", [end(5), end(4)]),
    "end below a high watermark": ("stale end", [poll(0, hw=7), end(6)]),
    "retained too short": (
        "retained too short",
        [retention(60_000), send(1, 0, ts=0), (5.0,), low(1)],
    ),
    # time
    "search by time goes past a record": (
        "wrong time search",
        [send(1, 0, ts=10), send(2, 1, ts=20), poll(0, (0, 1), (1, 2)), seek(5, 1)],
    ),
    "search by time finds nothing": (
        "wrong time search",
        [send(1, 0, ts=10), poll(0, (0, 1)), seek(10, -1)],
    ),
    "search by time finds an older record": (
        "wrong time search",
        [send(1, 0, ts=10), poll(0, (0, 1)), seek(11, 0)],
    ),
    "log start below the beginning": ("below the beginning", [BEGINS, low(0)]),
    "an end below the beginning": ("below the beginning", [BEGINS, end(0)]),
    # liveness
    "woken late": (
        "late wake-up",
        [
            HEALED,
            ASSIGN,
            ("r", "poll", {"key": 0, "position": 0, "wait_ms": 30_000}),
            send(1, 0),
            (20.0,),
            ("r", "poll", "ok", {"records": [(0, 1)], "next": 1}),
        ],
    ),
    "a poll that never ends": (
        "stuck",
        [HEALED, ("r", "poll", {"key": 0, "position": 0}), (200.0,), end(0)],
    ),
    "a join that never ends": (
        "stuck",
        [("m", "joined", {"group": "g"}), HEALED, (200.0,), end(0)],
    ),
}

GOOD: dict[str, list[Line]] = {
    "a partition that does not begin at 0": [
        BEGINS,
        poll_fails("OFFSET_OUT_OF_RANGE"),
        low(1_000),
        send(1, 1_000),
        poll(1_000, (1_000, 1), start=1_000),
    ],
    "an old epoch refused": [
        send(1, 0, producer=[7, 0]),
        send(2, 1, producer=[7, 1]),
        refused(3, "INVALID_PRODUCER_EPOCH", producer=[7, 0]),
        poll(0, (0, 1), (1, 2)),
    ],
    "two lives of a topic": [
        created(0),
        send(1, 0),
        poll(0, (0, 1)),
        delete(),
        created(1),
        poll_fails("UNKNOWN_TOPIC_ID"),
        refused(2, "UNKNOWN_TOPIC_ID"),
        send(3, 0, key=1),
        poll(0, (0, 3), key=1, process="r2"),
    ],
    "unknown by name, to a gateway that lags": [
        created(0),
        delete(),
        created(1),
        refused(1, "UNKNOWN_TOPIC_OR_PARTITION", key=1, by_name=True),
    ],
    "by name into the next life": [
        created(0),
        send(1, None, by_name=True),
        delete(),
        created(1),
        poll(0, (0, 1), key=1),
    ],
    "acknowledged, and deleted before anyone read it": [created(0), send(1, 0), delete()],
    "trimmed and told": [
        send(1, 0),
        send(2, 1),
        trim(1),
        low(1),
        poll(1, (1, 2), start=1, hw=2, link=1),
        poll(2, start=1, hw=2, link=1),
        poll(2, start=0, hw=2, link=2),
        end(2),
    ],
    "retention did its work": [
        retention(10_000),
        send(1, 0, ts=0),
        (20.0,),
        low(1),
        ("note", "final", "ok", "drained", {"key": 0, "offset": 1}),
    ],
    "retention by size": [retention(-1, 100), send(1, 0, ts=0), low(1)],
    "searches by time": [
        send(1, 0, ts=10),
        send(2, 1, ts=20),
        poll(0, (0, 1), (1, 2)),
        seek(5, 0),
        seek(10, 0),
        seek(11, 1),
        seek(21, -1),
    ],
    "a search past what was trimmed": [
        send(1, 0, ts=10),
        send(2, 1, ts=20),
        trim(1),
        seek(5, 1),
        poll(1, (1, 2)),
    ],
    "woken in time": [
        HEALED,
        ASSIGN,
        ("r", "poll", {"key": 0, "position": 0, "wait_ms": 30_000}),
        (20.0,),
        send(1, 0),
        ("r", "poll", "ok", {"records": [(0, 1)], "next": 1}),
    ],
    "slow before healing": [("m", "joined", {"group": "g"}), (200.0,), HEALED, end(0)],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_history_shows_its_fault_and_no_other(name: str) -> None:
    expected, lines = BAD[name]
    assert sorted({each.kind for each in check(history(*lines))}) == [expected]


@pytest.mark.parametrize("name", GOOD)
def test_good_history_shows_nothing(name: str) -> None:
    assert check(history(*GOOD[name])) == []


def test_a_file_is_checked(tmp_path: Path) -> None:
    for name, lines, status in (
        ("good", GOOD["two lives of a topic"], 0),
        ("bad", BAD["end falls"][1], 1),
    ):
        path = tmp_path / name
        path.write_text("".join(each.as_json() + "\n" for each in history(*lines)), "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "tidegate_simulation.check", str(path)],
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode == status, done.stderr
        assert bool(status) == ("stale end: " in done.stdout)


def test_histories_are_json_lines() -> None:
    for event in history(*GOOD["searches by time"]):
        assert json.loads(event.as_json())["index"] == event.index
