"""What the command runs: a way to judge a broker, and the settings the broker needs for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.report import Outcome


@dataclass(frozen=True, slots=True)
class Suite:
    """`check` gets the bootstrap address of a broker that was started with `settings`."""

    settings: Mapping[str, str]
    check: Callable[[str], Sequence[Outcome]]
