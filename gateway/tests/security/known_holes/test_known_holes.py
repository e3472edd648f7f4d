"""No known hole is open, and each of these tests fails at a gateway with the hole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.security.known_holes import (
    of_bytes,
    of_logins,
    of_needs,
    of_rights,
    of_settings,
    of_tokens,
)
from tests.security.known_holes.hole import Hole, Plant

PAGE = Path(__file__).parents[4] / "docs" / "security.md"
HOLES = (
    *of_logins.HOLES,
    *of_tokens.HOLES,
    *of_rights.HOLES,
    *of_needs.HOLES,
    *of_bytes.HOLES,
    *of_settings.HOLES,
)
PLANTED = [(hole, plant) for hole in HOLES for plant in hole.plants]


@pytest.mark.parametrize("hole", HOLES, ids=[each.name for each in HOLES])
async def test_a_known_hole_is_closed(hole: Hole, autojump_clock: MockClock) -> None:
    await hole.is_closed()


@pytest.mark.parametrize(
    ("hole", "plant"), PLANTED, ids=[f"{hole.name}-{plant.__name__}" for hole, plant in PLANTED]
)
async def test_a_planted_hole_is_found(
    hole: Hole, plant: Plant, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    # A plant that does not fit the code raises other errors, which prove nothing.
    failed = pytest.RaisesExc((AssertionError, pytest.fail.Exception))
    with pytest.RaisesGroup(failed, allow_unwrapped=True, flatten_subgroups=True):
        await hole.is_closed()


def test_the_page_lists_them() -> None:
    table = PAGE.read_text().partition("## Known holes")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| ([^|]*\d+) \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(each.name for each in HOLES)
