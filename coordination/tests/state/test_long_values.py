"""Values that are encoded in slices have the bytes of values that are encoded at once."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from tidegate_coordination.state.long_values import (
    SLICE_ROWS,
    LongList,
    LongValue,
    array_header,
    sorted_slices,
)

SIZES = (0, 1, 15, 16, SLICE_ROWS - 1, SLICE_ROWS, 2 * SLICE_ROWS + 1, (1 << 16) - 1, 1 << 16)


def long_list(count: int) -> LongList:
    table = {key: key * 3 for key in range(count)}
    return LongList(count, sorted_slices(table, lambda key, value: [key, value]))


@pytest.mark.parametrize("count", SIZES)
def test_a_row_has_the_same_bytes(count: int) -> None:
    plain = ["before", [[key, key * 3] for key in range(count)], {"after": 1}]
    row = LongValue.of_row(["before", long_list(count), {"after": 1}])
    assert b"".join(row.parts()) == msgspec.msgpack.encode(plain)


@pytest.mark.parametrize("fields", [1, 15, 16, 70_000])
def test_a_map_has_the_same_bytes(fields: int) -> None:
    plain: dict[str, object] = {str(number): number for number in range(fields)}
    encoded = LongValue.of_map({**plain, "0": long_list(20)})
    wanted = {**plain, "0": [[key, key * 3] for key in range(20)]}
    assert b"".join(encoded.parts()) == msgspec.msgpack.encode(wanted)


def test_rows_come_in_order_and_a_slice_is_short() -> None:
    keys = list(range(10 * SLICE_ROWS))
    Random(1).shuffle(keys)
    slices = list(sorted_slices(dict.fromkeys(keys), lambda key, _: key))
    assert [row for rows in slices for row in rows] == sorted(keys)
    assert max(map(len, slices)) == SLICE_ROWS
    # While the keys are put in order, there is nothing to encode, and others may run.
    assert slices[:10] == [[]] * 10


def test_headers_are_the_shortest() -> None:
    assert [len(array_header(count)) for count in (0, 15, 16, 65_535, 65_536)] == [1, 1, 3, 3, 5]
