"""Which topics one look at the source of switched topics examines."""

from __future__ import annotations

import pytest

from tidegate_gateway.migration.back.source_watch import LOOKS_A_ROUND, MIN_PORTION, portion


def test_few_topics_are_all_looked_at() -> None:
    names = [f"t{number:02}" for number in range(MIN_PORTION)]
    assert portion(names, "") == names
    assert portion(names, "t07") == names


@pytest.mark.parametrize("count", [MIN_PORTION + 1, 100, 500, 501])
def test_each_of_many_topics_is_looked_at_in_a_round(count: int) -> None:
    names = [f"t{number:03}" for number in range(count)]
    seen: set[str] = set()
    after = ""
    for _ in range(LOOKS_A_ROUND):
        part = portion(names, after)
        assert 0 < len(part) <= max(MIN_PORTION, count // LOOKS_A_ROUND + 1)
        seen |= set(part)
        after = part[-1]
    assert seen == set(names)


def test_topics_that_come_and_go_meanwhile_do_not_stop_the_round() -> None:
    names = [f"t{number:03}" for number in range(100)]
    after = portion(names, "")[-1]
    assert portion(names[50:], after)[0] == "t050"
    assert portion(names[:10], "t099") == names[:10]
