"""A pause is over once a task has waited for it, in spite of rounding."""

from __future__ import annotations

from random import Random

from tidegate_gateway.network.inflow import Inflow
from tidegate_gateway.produce.put_budget import PutBudget
from tidegate_gateway.produce.seal_pace import SealPace

FREE_BYTES = 7 << 20


def test_every_wait_moves_the_clock_on() -> None:
    """Otherwise a task would ask again for ever, because virtual time stands still meanwhile."""
    rng = Random(1)
    for _ in range(2000):
        now = rng.uniform(0, 5000)
        pace = SealPace(PutBudget(8.0, FREE_BYTES), Inflow(), FREE_BYTES, 0.25)
        for _ in range(5):
            pace.budget.take(0, now)
            pace.budget.take(-FREE_BYTES * rng.randrange(500), now)
            size_bytes = rng.randrange(60, FREE_BYTES)
            pace.opened(now)
            looks = 0
            while pause := pace.pause_seconds(size_bytes, now, is_alone=rng.random() < 0.5):
                assert now + pause > now
                assert looks < 10
                now += pause
                looks += 1
            pace.sealed(size_bytes, now)
