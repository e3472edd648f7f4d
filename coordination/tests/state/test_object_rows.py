"""Rows of objects: a few old rows hold little memory, and all remaining rows are intact."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tidegate_coordination.state.long_values import LongValue
from tidegate_coordination.state.records.object_rows import ObjectRows
from tidegate_coordination.state.records.objects import ObjectTable, WalName


def test_old_rows_keep_no_memory_of_removed_ones() -> None:
    """The first of 20,000 objects stays: neither it nor its neighbours keep the others in
    memory.
    """
    table = ObjectTable()
    kept = table.fold_committed(WalName(1, 0), 1, 1, 1000)
    sizes: list[int] = []
    for counter in range(1, 20_000):
        number = table.fold_committed(WalName(1, counter), 1, 1, 1000)
        table.supersede(number, 1000)
        table.fold_collected([number])
        if counter % 100 == 0:
            sizes.append(sum(map(len, table.encode(is_wide=True).parts())))
    assert list(table.numbers()) == [kept]
    assert table.name(kept) == WalName(1, 0)
    assert table.next_number == 20_000
    assert max(sizes) < 500


def encoded(rows: ObjectRows) -> dict[str, Any]:
    return dict(msgspec.msgpack.decode(b"".join(LongValue.of_map(rows.encode()).parts())))


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_those_of_a_dictionary(seed: int) -> None:
    rng = Random(seed)
    rows, model = ObjectRows("Iq"), dict[int, list[int]]()
    for _ in range(200):
        for _ in range(rng.randrange(200)):
            row = [rng.randrange(1 << 32), rng.randrange(1 << 40)]
            model[rows.append(row)] = row
        gone = rng.sample(sorted(model), rng.randrange(len(model) + 1)) if model else []
        rows.remove(gone)
        for number in gone:
            del model[number]
        if model:
            changed = rng.choice(sorted(model))
            model[changed][1] += 1
            rows.set(changed, 1, rows.get(changed, 1) + 1)
        if rng.random() < 0.5:
            rows.encode()  # a snapshot shares the pages
    again = ObjectRows("Iq")
    again.decode(encoded(rows))
    for each in (rows, again):
        assert list(each.numbers()) == sorted(model)
        assert len(each) == len(model)
        assert all(each.row(number) == row for number, row in model.items())
        assert each.next_number == rows.next_number
    assert encoded(again) == encoded(rows)


def test_a_row_that_was_removed_is_not_there() -> None:
    rows = ObjectRows("I")
    for value in range(10):
        rows.append([value])
    rows.remove([3])
    for number in (3, 10, 5000):
        with pytest.raises(KeyError):
            rows.get(number, 0)
    rows.remove([0, 1, 2, 4, 5, 6, 8, 9])
    assert list(rows.numbers()) == [7]
    with pytest.raises(KeyError):
        rows.row(6)
    assert rows.row(7) == [7]
    rows.remove([7])
    assert len(rows) == 0
    assert rows.append([1]) == 10
