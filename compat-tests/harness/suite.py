"""What the command runs: a way to judge a broker, and the settings the broker needs for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.report import Outcome


@dataclass(frozen=True, slots=True)
class Suite:
    """`check` gets the bootstrap address of a broker that was started with `settings`."""

    settings: Mapping[str, str]
    check: Callable[[str], Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class ScoredSuite:
    """A suite with a baseline: `check` also gets a pattern, and runs the tests with such names."""

    settings: Mapping[str, str]
    check: Callable[[str, re.Pattern[str]], Sequence[Outcome]]

    def of(self, only: re.Pattern[str]) -> Suite:
        """The tests whose names match."""
        return Suite(self.settings, lambda bootstrap: self.check(bootstrap, only))
