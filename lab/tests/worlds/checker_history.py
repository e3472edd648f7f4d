"""Histories made by hand for the checker, written call by call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from tidegate_simulation.checks.checker import check
from tidegate_simulation.checks.history import Event, History

Write = Callable[[History], None]


def new_history() -> History:
    ticks = count()
    return History(lambda: next(ticks) * 0.001)


def send(
    history: History,
    values: list[int],
    offset: int | None,
    *,
    key: int = 0,
    process: str = "p",
    producer: list[int] | None = None,
    error: str = "",
) -> None:
    """offset None: outcome unknown."""
    value = {"key": key, "values": values, "producer": producer}
    invoke = history.invoke(process, "send", value)
    if error:
        history.fail(invoke, error=error)
    elif offset is None:
        history.info(invoke)
    else:
        history.ok(invoke, offset=offset)


def poll(
    history: History,
    records: list[tuple[int, int]],
    position: int,
    following: int | None = None,
    *,
    key: int = 0,
    process: str = "r",
) -> None:
    invoke = history.invoke(process, "poll", {"key": key, "position": position})
    last = following if following is not None else (records[-1][0] + 1 if records else position)
    history.ok(invoke, records=records, next=last)


def poll_fails(history: History, position: int, *, process: str = "r") -> None:
    invoke = history.invoke(process, "poll", {"key": 0, "position": position})
    history.fail(invoke, error="OFFSET_OUT_OF_RANGE")


def assign(history: History, *keys: int, process: str = "r") -> None:
    history.note(process, "ok", "assign", {"keys": list(keys)})


def drained(history: History, offset: int, key: int = 0) -> None:
    history.note("final", "ok", "drained", {"key": key, "offset": offset})


def trim(history: History, before: int) -> None:
    invoke = history.invoke("admin", "trim", {"key": 0, "before": before})
    history.ok(invoke, low=before)


def end(history: History, offset: int) -> None:
    history.ok(history.invoke("admin", "end", {"key": 0}), offset=offset)


def commit(history: History, offset: int, outcome: str = "ok", *, group: str = "g") -> Event:
    invoke = history.invoke("c", "commit", {"group": group, "key": 0, "offset": offset})
    if outcome == "ok":
        history.ok(invoke)
    elif outcome == "info":
        history.info(invoke)
    elif outcome == "fail":
        history.fail(invoke)
    return invoke


def fetched(history: History, offset: int | None, *, group: str = "g") -> None:
    history.ok(history.invoke("f", "fetched", {"group": group, "key": 0}), offset=offset)


def kinds(write: Write) -> list[str]:
    history = new_history()
    write(history)
    return sorted({each.kind for each in check(history.events)})
