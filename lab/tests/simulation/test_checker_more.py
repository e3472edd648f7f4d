"""More histories made by hand: topics that come and go, groups, time, and what is told beside data.

Each line of a history: process, type, f, value; "ok" and the like end the last open operation of
their process and kind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tidegate_simulation.checks.checker import check
from tidegate_simulation.checks.history import Event, History

Line = tuple[Any, ...]


def history(*lines: Line, step_seconds: float = 0.001) -> list[Event]:
    """A line (process, f, value, outcome) is an operation; outcome is (type, more).

    (process, f, value) begins one that (process, f, type, more) ends; a number lets time pass.
    """
    ticks = count()
    extra = 0.0
    written = History(lambda: next(ticks) * step_seconds + extra)
    begun: dict[tuple[str, str], Event] = {}
    for line in lines:
        if isinstance(line[0], float):
            extra += line[0]
        elif line[0] == "note":
            written.note(line[1], line[2], line[3], line[4])
        elif len(line) == 3:
            begun[line[0], line[1]] = written.invoke(*line)
        else:
            process, f, *rest = line
            if isinstance(rest[0], dict):
                begun[process, f] = written.invoke(process, f, rest.pop(0))
            kind, more = rest[0] if isinstance(rest[0], tuple) else rest
            getattr(written, kind)(begun.pop((process, f)), **more)
    return written.events


def send(value: int, offset: int | None, *, process: str = "p", key: int = 0, **more: Any) -> Line:
    """offset None: unknown."""
    table = {"key": key, "values": [value], "producer": None, **more}
    return process, "send", table, ("info", {}) if offset is None else ("ok", {"offset": offset})


def refused(value: int, error: str, *, key: int = 0, **more: Any) -> Line:
    table = {"key": key, "values": [value], "producer": None, **more}
    return "p", "send", table, ("info", {"error": error})


def poll(
    position: int, *records: tuple[int, int], key: int = 0, process: str = "r", **more: Any
) -> Line:
    last = records[-1][0] + 1 if records else position
    told = {"records": list(records), "next": last, **more}
    return process, "poll", {"key": key, "position": position}, ("ok", told)


def poll_fails(error: str, *, key: int = 0) -> Line:
    return "r", "poll", {"key": key, "position": 0}, ("fail", {"error": error})


def low(offset: int, key: int = 0) -> Line:
    return "a", "low", {"key": key}, ("ok", {"offset": offset})


def end(offset: int) -> Line:
    return "a", "end", {"key": 0}, ("ok", {"offset": offset})


def trim(before: int) -> Line:
    return "a", "trim", {"key": 0, "before": before}, ("ok", {"low": before})


def seek(ts: int, offset: int) -> Line:
    return "s", "seek", {"key": 0, "ts": ts}, ("ok", {"offset": offset})


def delete(key: int = 0) -> Line:
    return "a", "delete", {"keys": [key]}, ("ok", {})


def created(key: int) -> Line:
    return "note", "a", "ok", "created", {"topic": "t", "keys": [key]}


def retention(ms: int, size_bytes: int = -1) -> Line:
    return "note", "a", "ok", "retention", {"key": 0, "ms": ms, "bytes": size_bytes}


def joined(
    member: str, generation: int, keys: list[int], instance: str | None = None, process: str = "m"
) -> Line:
    told = {"generation": generation, "member": member, "keys": keys}
    more = {"instance": instance, "session_ms": 10_000}
    return process, "joined", {"group": "g"}, ("ok", {**told, **more})


def unaware(f: str = "unaware", group_id: str = "g") -> Line:
    return "note", "auditor", "info", f, {"groups": [group_id]}


def commit(offset: int, member: str = "", generation: int = -1, **outcome: str) -> Line:
    table: dict[str, Any] = {"group": "g", "key": 0, "offset": offset}
    if member:
        table |= {"member": member, "generation": generation}
    return "m", "commit", table, ("info", outcome) if outcome else ("ok", {})


def heartbeat(member: str, generation: int, error: str = "") -> Line:
    table = {"group": "g", "member": member, "generation": generation}
    return "m", "heartbeat", table, ("fail", {"error": error}) if error else ("ok", {})


def fetched(offset: int | None) -> Line:
    return "f", "fetched", {"group": "g", "key": 0}, ("ok", {"offset": offset})


def forget(kind: str = "ok") -> Line:
    return "d", "forget", {"group": "g"}, (kind, {})


def left(member: str) -> Line:
    return "note", "m", "ok", "left", {"group": "g", "member": member}


GONE: Line = ("note", "watch", "ok", "gone", {"group": "g"})
EXPIRED: Line = ("note", "watch", "ok", "expired", {"group": "g", "keys": [0]})
BEGINS: Line = ("note", "setup", "ok", "begins", {"key": 0, "offset": 1_000})
HEALED: Line = ("note", "nemesis", "info", "healed", None)
ASSIGN: Line = ("note", "r", "ok", "assign", {"keys": [0]})

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
    "log start that nobody moved": ("log start too high", [low(1)]),
    "log start above what was asked": ("log start too high", [trim(5), low(6)]),
    "a poll tells of a log start that nobody moved": (
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
    # groups
    "two members own a key": ("two owners", [joined("a", 1, [0]), joined("b", 1, [0])]),
    "two static members own a key": (
        "two owners",
        [joined("a", 1, [0], "i"), joined("b", 1, [0], "j")],
    ),
    "a generation falls after another group was deleted": (
        "generation fell",
        [
            joined("a", 2, []),
            ("note", "watch", "ok", "gone", {"group": "h"}),
            joined("b", 1, []),
        ],
    ),
    "a generation falls in a group's second life": (
        "generation fell",
        [GONE, joined("a", 2, []), joined("b", 1, [])],
    ),
    "two members own a key in a group's second life": (
        "two owners",
        [GONE, joined("a", 1, [0]), joined("b", 1, [0])],
    ),
    "generation falls": ("generation fell", [joined("a", 2, []), joined("b", 1, [])]),
    "an old generation commits": (
        "zombie commit",
        [joined("a", 1, [0]), joined("b", 2, [0]), commit(5, "a", 1)],
    ),
    "a replaced static member commits": (
        "static member not fenced",
        [joined("a", 1, [0], "i"), joined("b", 1, [0], "i"), commit(5, "a", 1)],
    ),
    "a replaced static member is heard": (
        "static member not fenced",
        [joined("a", 1, [0], "i"), joined("b", 1, [0], "i"), heartbeat("a", 1)],
    ),
    "put out before its time": (
        "expired early",
        [joined("a", 1, [0]), (9.0,), heartbeat("a", 1, "UNKNOWN_MEMBER_ID")],
    ),
    "put out soon after a heartbeat": (
        "expired early",
        [
            joined("a", 1, [0]),
            (9.0,),
            heartbeat("a", 1),
            (9.0,),
            heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out at a commit soon after a heartbeat": (
        "expired early",
        [
            joined("a", 1, [0]),
            (9.0,),
            heartbeat("a", 1),
            (3.0,),
            commit(6, "a", 1, error="UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out soon after it was heard, and another group's gateway was unaware": (
        "expired early",
        [
            unaware("unaware", "h"),
            joined("a", 1, [0]),
            (9.0,),
            heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out while a gateway is unaware, and none heard of it since": (
        "expired early",
        [joined("a", 1, [0]), (2.0,), unaware(), heartbeat("a", 1, "UNKNOWN_MEMBER_ID")],
    ),
    "put out soon after a heartbeat, when a gateway had been unaware": (
        "expired early",
        [
            joined("a", 1, [0]),
            unaware(),
            heartbeat("a", 1),
            unaware("aware"),
            (60.0,),
            heartbeat("a", 1),
            (1.0,),
            heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out after a gateway was unaware": (
        "expired early",
        [
            unaware(),
            unaware("aware"),
            joined("a", 1, [0]),
            (9.0,),
            heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
        ],
    ),
    "put out soon after it was heard, and long before a gateway was unaware": (
        "expired early",
        [
            joined("a", 1, [0]),
            (7.0,),
            unaware(),
            (2.0,),
            commit(6, "a", 1, error="UNKNOWN_MEMBER_ID"),
        ],
    ),
    "unknown when it joins again": (
        "expired early",
        [
            joined("a", 1, [0]),
            (3.0,),
            (
                "m",
                "joined",
                {"group": "g"},
                ("info", {"error": "UNKNOWN_MEMBER_ID", "member": "a"}),
            ),
        ],
    ),
    "another key's commit expires": (
        "vanished commit",
        [
            commit(5),
            ("note", "watch", "ok", "expired", {"group": "g", "keys": [1, None]}),
            fetched(None),
        ],
    ),
    "a commit after one that expired vanishes": (
        "vanished commit",
        [commit(5), EXPIRED, commit(6), fetched(None)],
    ),
    "what expired comes back": ("stale commit", [commit(5), EXPIRED, fetched(5)]),
    "what a deleted group committed comes back": ("stale commit", [commit(5), GONE, fetched(5)]),
    "log start below the beginning": ("below the beginning", [BEGINS, low(0)]),
    "an end below the beginning": ("below the beginning", [BEGINS, end(0)]),
    "a commit survives its group": ("stale commit", [commit(5), forget(), fetched(5)]),
    "a commit vanishes though nothing was deleted": (
        "vanished commit",
        [commit(5), forget("fail"), fetched(None)],
    ),
    "a commit after the deletion vanishes": (
        "vanished commit",
        [commit(5), forget(), commit(6), fetched(None)],
    ),
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
    "a deleted group begins anew": [
        joined("a", 3, [0]),
        GONE,
        joined("b", 1, [0]),
        joined("c", 2, [0]),
        joined("d", 3, [0]),
        commit(5, "d", 3),
    ],
    "a commit that expired": [commit(5), EXPIRED, fetched(None), commit(6), fetched(6)],
    "a join that began before its group was deleted": [
        ("m", "joined", {"group": "g"}),
        GONE,
        (
            "m",
            "joined",
            "ok",
            {"generation": 3, "member": "a", "keys": [0], "instance": None, "session_ms": 10_000},
        ),
        joined("b", 1, [0], process="n"),
    ],
    "a partition that does not begin at 0": [
        BEGINS,
        poll_fails("OFFSET_OUT_OF_RANGE"),
        low(1_000),
        send(1, 1_000),
        poll(1_000, (1_000, 1), start=1_000),
    ],
    "put out soon after an unaware gateway heard of it": [
        joined("a", 1, [0]),
        (9.0,),
        unaware(),
        heartbeat("a", 1),
        (9.0,),
        heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
    ],
    "put out soon after a gateway heard of it that was seen to be unaware then": [
        joined("a", 1, [0]),
        (9.0,),
        heartbeat("a", 1),
        (0.3,),
        unaware(),
        unaware("aware"),
        (9.0,),
        heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
    ],
    "put out by a rebalance of which commits do not tell": [
        joined("a", 1, [0]),
        (9.0,),
        commit(5, "a", 1),
        (3.0,),
        commit(6, "a", 1, error="UNKNOWN_MEMBER_ID"),
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
    "unknown by name, to one who is behind": [
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
    "a static member returns": [
        joined("a", 1, [0], "i"),
        commit(5, "a", 1),
        joined("b", 1, [0], "i"),
        heartbeat("a", 1, "FENCED_INSTANCE_ID"),
        commit(6, "b", 1),
        fetched(6),
    ],
    "put out in time": [
        joined("a", 1, [0]),
        (10.5,),
        heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
    ],
    "put out because it left": [
        joined("a", 1, [0]),
        left("a"),
        heartbeat("a", 1, "UNKNOWN_MEMBER_ID"),
    ],
    "a group deleted and begun anew": [commit(5), forget(), fetched(None), commit(1), fetched(1)],
    "a deletion of unknown outcome": [commit(5), forget("info"), fetched(5), fetched(None)],
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
