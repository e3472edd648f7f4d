"""Searches the simulator's second tier for a planted bug of a rule or a fold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from typing import Final

import pytest

from tidegate_simulation.decisions.run import run

SEEDS: Final = 200
OPERATIONS: Final = 600
_IN_RULES: Final = "in rules: "


def in_rules(text: str) -> str:
    """Return the kind of violations of the second tier whose texts contain this text.

    If the second tier shows the bug of a test, the test expects such a kind, too.  Then only the
    wide search runs worlds with gateways.
    """
    return f"{_IN_RULES}{text}"


def texts_of(kinds: Collection[str]) -> list[str]:
    """Return the texts of the kinds that in_rules() made."""
    return [each.removeprefix(_IN_RULES) for each in kinds if each.startswith(_IN_RULES)]


def find_in_rules(
    planted: Callable[[], AbstractContextManager[None]],
    texts: Collection[str],
    hints: Iterable[int] = (),
) -> int:
    """Return the first seed that shows a bug; fail if none does.

    planted: returns a context in which the bug is planted.  hints: seeds to look at first.
    """
    seeds: list[int] = [*hints, *range(1, SEEDS + 1)]
    for seed in seeds:
        with planted():
            outcome = run(seed, OPERATIONS)
        if any(text in each.text for each in outcome.violations for text in texts):
            return seed
    pytest.fail(f"not found in {SEEDS} seeds of the second tier")
