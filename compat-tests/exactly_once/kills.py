"""When gateways and clients are killed, by seed.  No I/O here."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

AWAY_SECONDS: Final = (2.0, 6.0)
AWAY_SHARE: Final = 0.3  # share of kills after which the process stays down for a while


@dataclass(frozen=True, slots=True)
class Blow:
    """A fault of one process.

    at_seconds: seconds after the beginning of the plan.  how: a kind that the caller named.
    seconds: until the process continues or is started again.
    """

    at_seconds: float
    who: int
    how: str
    seconds: float = 0.0


def blows(
    seed: str, who: Sequence[int], every_seconds: float, kinds: Sequence[str] = ("kill",)
) -> Iterator[Blow]:
    """Yield without end a fault per interval of `every_seconds`, and all kinds equally often."""
    source = random.Random(seed)
    begin = 0.0
    while True:
        for how in source.sample(kinds, len(kinds)):
            at = begin + source.uniform(0, every_seconds)
            away = source.uniform(*AWAY_SECONDS) if source.random() < AWAY_SHARE else 0.0
            yield Blow(at, source.choice(who), how, round(away, 1))
            begin += every_seconds
