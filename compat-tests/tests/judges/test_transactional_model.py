"""The model of transactions knows what readers get, before and after compaction."""

from __future__ import annotations

import pytest
from compaction.transactional import End, Expected, Transactions, Write, all_transactions
from compaction.workloads import Row


def row(key: str, value: str | None = "v") -> Row:
    """A record."""
    return Row(key.encode(), value.encode() if value is not None else None, 1_000)


def offsets(expected: Expected) -> tuple[list[int], list[int]]:
    """Return the offsets that readers of committed and of uncommitted records get."""
    committed = [each.offset for each in expected.committed()]
    return committed, [each.offset for each in expected.all_rows()]


def test_readers_of_committed_records_stop_at_the_first_open_transaction() -> None:
    expected = Expected()
    expected.write(0, [row("a")])
    expected.write(1, [row("b")])
    expected.end(1, is_committed=True)
    assert offsets(expected) == ([], [0, 1])
    expected.end(0, is_committed=True)
    assert offsets(expected) == ([0, 1], [0, 1])


def test_markers_take_offsets_and_aborted_records_are_uncommitted() -> None:
    expected = Expected()
    expected.write(0, [row("a"), row("b")])
    expected.end(0, is_committed=False)
    expected.add([row("c")])
    assert offsets(expected) == ([3], [0, 1, 3])
    assert expected.aborted == 2


def test_an_aborted_record_hides_no_committed_one_from_compaction() -> None:
    expected = Expected()
    expected.add([row("a"), row("b", None)])
    expected.write(0, [row("a"), row("b")])
    expected.end(0, is_committed=False)
    kept = expected.survivors(keeps_tombstones=True)
    assert [each.offset for each in kept] == [0, 1]
    assert [each.offset for each in expected.survivors(keeps_tombstones=False)] == [0]


@pytest.mark.parametrize("plan", all_transactions(7), ids=lambda plan: plan.name)
def test_plans_leave_a_transaction_open_and_then_end_it(plan: Transactions) -> None:
    expected = Expected()
    steps = plan.steps(1_000)
    for step in (*steps, *plan.last_steps(steps)):
        if isinstance(step, Write):
            expected.write(step.producer, step.rows)
        else:
            expected.end(step.producer, is_committed=step.is_committed)
    assert plan.last_steps(steps)
    assert isinstance(steps[0], Write)
    assert any(isinstance(step, End) and not step.is_committed for step in steps)
    assert len(expected.committed()) + expected.aborted == len(expected.all_rows())
