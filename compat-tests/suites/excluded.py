"""The tests a suite leaves out: lines `NAME: REASON` in expected/SUITE-excluded.txt.

A NAME also stands for all of its subtests, NAME/...
"""

from __future__ import annotations

import re
from collections.abc import Set

from harness.places import HERE

from suites.baseline import Exclusions

# Reasons that depend on an API.  Once a broker offers the API, the tests are run.
API_OF_REASON = {
    "share groups (KIP-932) are not offered yet": 78,  # ShareFetch
}


def excluded(suite: str) -> Exclusions:
    """Return the exclusions in the suite's file.

    Raises:
      ValueError: a line is not `NAME: REASON`.
    """
    text = (HERE / "expected" / f"{suite}-excluded.txt").read_text()
    return [_parse(line) for line in text.splitlines()]


def _parse(line: str) -> tuple[re.Pattern[str], str]:
    name, colon, reason = line.rpartition(": ")
    if not (name and colon and reason):
        raise ValueError(f"not NAME: REASON: {line!r}")
    return re.compile(rf"^{re.escape(name)}(/|$)"), reason


def worth_a_start(name: str, exclusions: Exclusions, offered: Set[int]) -> bool:
    """Return whether to start a test: it is not excluded, or its missing API is offered now.

    Without the API a client might retry until the test's time limit.
    """
    reasons = [reason for pattern, reason in exclusions if pattern.search(name)]
    return all(API_OF_REASON.get(reason) in offered for reason in reasons)
