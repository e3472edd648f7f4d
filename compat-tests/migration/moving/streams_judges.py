"""Checks of an application that moved: its rebalances, its errors, and its source.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exactly_once.restores import AppLife

Ends = Mapping[str, Mapping[int, int]]
"""Where partitions end, by topic and index."""


def rebalances(lives: Iterable[AppLife], begun_ms: int, until_ms: int) -> int:
    """Return how often instances began to rebalance between two times."""
    return sum(begun_ms <= at <= until_ms for life in lives for at in life.rebalances)


def failures(lives: Iterable[AppLife]) -> list[str]:
    """Return the errors that ended instances, without the instances that the test ended."""
    return [f"an instance ended by itself: {each.errors[-3:]}" for each in lives if each.failed]


def wrong_at_source(at_switch: Ends, at_end: Ends, counted_there: int, counted: int) -> list[str]:
    """Return the problems of the topics at the source after the application moved away.

    at_switch, at_end: the ends of the source's partitions right after the switch, and now.
    counted_there, counted: the number of committed counts at the source, and in all.
    """
    grown = [name for name in at_end if at_end[name] != at_switch.get(name)]
    problems = [f"the source got records of {name} after the switch" for name in grown]
    if not 0 < counted_there < counted:
        problems.append(f"{counted_there} of {counted} counts are at the source")
    return problems
