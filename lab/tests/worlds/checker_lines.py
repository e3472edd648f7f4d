"""Histories made by hand for the checker, written as lines.

The functions below make lines; history() makes a history of them.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from tidegate_simulation.checks.history import Event, History

Line = tuple[Any, ...]


def history(*lines: Line, step_seconds: float = 0.001) -> list[Event]:
    """A line (process, f, value, outcome) is an operation; outcome is (type, more).

    A line (process, f, value) begins an operation, which a line (process, f, type, more) ends.  A
    number advances the time.
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
