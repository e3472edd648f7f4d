"""When the bytes of small writes make a snapshot of the metadata log due."""

from __future__ import annotations

from tidegate_gateway.upkeep.log_growth import MAX_INLINED_BYTES, LogGrowth

HALF = MAX_INLINED_BYTES // 2


def test_a_snapshot_is_due_when_there_are_many_bytes_above_the_last_one() -> None:
    growth = LogGrowth()
    growth.note(10, HALF)
    assert not growth.is_due(0)
    growth.note(20, 2 * HALF - 1)
    assert not growth.is_due(0)
    growth.note(30, 2 * HALF)
    assert growth.is_due(0)
    assert not growth.is_due(10)
    growth.note(40, 3 * HALF)
    assert growth.is_due(10)
    assert not growth.is_due(40)


def test_looks_without_new_bytes_take_no_memory() -> None:
    growth = LogGrowth()
    for position in range(1000):
        growth.note(position, HALF)
    assert not growth.is_due(500)
    assert len(growth._looks) == 1
