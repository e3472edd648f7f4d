"""The checker, fed with histories of transactions made by hand."""

from __future__ import annotations

import pytest

from tests.worlds.checker_history import Write, kinds
from tidegate_simulation.checks.history import History

INPUTS, OUTPUTS = 0, 1


def write(h: History, name: str, values: list[int], offset: int, *, key: int = 0) -> None:
    value = {"key": key, "values": values, "producer": [7, 0], "txn": name}
    h.ok(h.invoke("p", "send", value), offset=offset)


def process(h: History, name: str, of: list[int], values: list[int], offset: int) -> None:
    value = {"key": OUTPUTS, "values": values, "producer": [8, 0], "txn": name, "of": of}
    h.ok(h.invoke("etl", "send", value), offset=offset)


def end(h: History, name: str, *, commit: bool = True, outcome: str = "ok") -> None:
    invoke = h.invoke("p", "end_txn", {"txn": name, "commit": commit})
    {"ok": h.ok, "fail": h.fail, "info": h.info}[outcome](invoke)


def read(h: History, records: list[tuple[int, int]], following: int, *, key: int = 0) -> None:
    """Read committed records from the start."""
    value = {"key": key, "position": 0, "committed": True}
    h.ok(h.invoke(f"r{key}", "poll", value), records=records, next=following)


def drained(h: History, offset: int, *, key: int = 0) -> None:
    for more in ({}, {"committed": True}):
        h.note("final", "ok", "drained", {"key": key, "offset": offset, **more})


# -- transactions ----------------------------------------------------------------------------------


def a_whole_transaction(h: History) -> None:
    write(h, "t/1", [1, 2], 0)
    end(h, "t/1")
    read(h, [(0, 1), (1, 2)], 3)
    drained(h, 3)


def an_open_transaction_is_read(h: History) -> None:
    write(h, "t/1", [1], 0)
    read(h, [(0, 1)], 1)


def a_refused_commit_is_read(h: History) -> None:
    write(h, "t/1", [1], 0)
    end(h, "t/1", outcome="fail")
    read(h, [(0, 1)], 2)


def half_of_it_is_read(h: History) -> None:
    write(h, "t/1", [1], 0)
    write(h, "t/1", [2], 1)
    end(h, "t/1", outcome="info")
    read(h, [(0, 1)], 3)
    h.ok(h.invoke("other", "poll", {"key": 0, "position": 1}), records=[(1, 2)], next=3)
    drained(h, 3)


def an_epoch_for_two(h: History) -> None:
    for process_name in ("a", "b"):
        h.note(process_name, "ok", "epoch", {"id": "t", "producer": 7, "epoch": 3})


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (a_whole_transaction, []),
        (an_open_transaction_is_read, ["aborted read"]),
        (a_refused_commit_is_read, ["aborted read"]),
        (half_of_it_is_read, ["torn transaction"]),
        (an_epoch_for_two, ["epoch given twice"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_transactions_are_judged(history: Write, expected: list[str]) -> None:
    assert kinds(history) == expected


# -- consume, process, produce ---------------------------------------------------------------------


def _inputs(h: History) -> None:
    write(h, "in/1", [1, 2], 0, key=INPUTS)
    end(h, "in/1")
    read(h, [(0, 1), (1, 2)], 3, key=INPUTS)
    drained(h, 3, key=INPUTS)


def _outputs(h: History, records: list[tuple[int, int]], following: int) -> None:
    read(h, records, following, key=OUTPUTS)
    drained(h, following, key=OUTPUTS)
    h.note("last", "ok", "processed", {"in": [INPUTS]})


def each_once(h: History) -> None:
    _inputs(h)
    process(h, "etl/1", [1, 2], [11, 12], 0)
    end(h, "etl/1")
    _outputs(h, [(0, 11), (1, 12)], 3)


def again_after_an_abort(h: History) -> None:
    _inputs(h)
    process(h, "etl/1", [1, 2], [11, 12], 0)
    end(h, "etl/1", commit=False)
    process(h, "etl/2", [1, 2], [13, 14], 3)
    end(h, "etl/2")
    # A reader of all records sees the aborted ones.
    h.ok(
        h.invoke("all", "poll", {"key": OUTPUTS, "position": 0}),
        records=[(0, 11), (1, 12), (3, 13), (4, 14)],
        next=6,
    )
    _outputs(h, [(3, 13), (4, 14)], 6)


def one_twice(h: History) -> None:
    _inputs(h)
    process(h, "etl/1", [1, 2], [11, 12], 0)
    end(h, "etl/1")
    process(h, "etl/2", [2], [13], 3)
    end(h, "etl/2")
    _outputs(h, [(0, 11), (1, 12), (3, 13)], 5)


def one_not(h: History) -> None:
    _inputs(h)
    process(h, "etl/1", [2], [12], 0)
    end(h, "etl/1")
    _outputs(h, [(0, 12)], 2)


def in_another_order(h: History) -> None:
    _inputs(h)
    process(h, "etl/1", [2], [12], 0)
    end(h, "etl/1")
    process(h, "etl/2", [1], [11], 2)
    end(h, "etl/2")
    _outputs(h, [(0, 12), (2, 11)], 4)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (each_once, []),
        (again_after_an_abort, []),
        (one_twice, ["processed twice"]),
        (one_not, ["not processed"]),
        (in_another_order, ["reordered output"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_input_has_one_output(history: Write, expected: list[str]) -> None:
    assert kinds(history) == expected
