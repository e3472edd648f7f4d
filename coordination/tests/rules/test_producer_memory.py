"""Which batches of a producer count as written before the kept ones."""

import pytest

from tidegate_coordination.state.records.producers import KeptBatch, ProducerState

MAX = 2**31 - 1


def kept(*spans: tuple[int, int]) -> ProducerState:
    batches = tuple(KeptBatch(first, last, 0, -1) for first, last in spans)
    return ProducerState(0, batches, 0)


STEADY = kept((10, 19), (20, 29), (30, 39), (40, 49), (50, 59))
WRAPPED = kept((MAX - 20, MAX - 10), (MAX - 9, MAX), (0, 9), (10, 19), (20, 29))


@pytest.mark.parametrize(
    ("first", "last", "forgotten"),
    [
        (0, 0, True),
        (8, 9, True),
        (8, 10, False),
        (61, 61, False),
        (2**30 - 1, 2**30, False),
        (2**30 + 100, 2**30 + 100, False),
        (MAX, MAX, False),
        (MAX - 1, 2, False),
    ],
)
def test_only_batches_below_the_kept_ones_were_dropped(
    first: int, last: int, forgotten: bool
) -> None:
    assert STEADY.has_forgotten(first, last) is forgotten


@pytest.mark.parametrize("first", [31, 2**30, MAX - 40, MAX - 22])
def test_around_the_wrap_nothing_is_taken_for_a_repeat(first: int) -> None:
    assert not WRAPPED.has_forgotten(first, first)


def test_where_fewer_than_five_are_kept_nothing_was_forgotten() -> None:
    assert not ProducerState(0, STEADY.batches[1:], 0).has_forgotten(0, 0)
