"""Scores an upstream suite against the list of tests that pass on Apache Kafka.

baseline/SUITE-pass.txt names the tests that passed on Apache Kafka.  Only these tests count.  A run
may choose some of them by a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from harness.places import HERE
from harness.report import Outcome

# Test name -> whether it passed.  A missing test did not run, or was skipped.
Results = Mapping[str, bool]
Exclusions = Sequence[tuple[re.Pattern[str], str]]
EVERYTHING = re.compile("")


def passing(suite: str, only: re.Pattern[str] = EVERYTHING) -> list[str]:
    """Return the tests that pass on Apache Kafka, and whose names match `only`."""
    names = (HERE / "baseline" / f"{suite}-pass.txt").read_text().splitlines()
    return [name for name in names if only.search(name)]


def score(baseline: Sequence[str], results: Results, exclusions: Exclusions) -> list[Outcome]:
    """Judge each test of the baseline; a test that passes counts even if it is excluded."""
    return [_judge(name, results.get(name), exclusions) for name in baseline]


def _judge(name: str, passed: bool | None, exclusions: Exclusions) -> Outcome:
    if passed:
        return Outcome(name, "passed")
    reason = next((reason for pattern, reason in exclusions if pattern.search(name)), "")
    if reason:
        return Outcome(name, "excluded", reason)
    return Outcome(name, "failed", "failed" if passed is False else "did not run or was skipped")
