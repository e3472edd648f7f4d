"""Worlds with fewer operations, clients and faults than their seed draws.

A planted bug is found in less time there.  All draws stay those of the seed: the world only leaves
out clients and faults after they were drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from tidegate_simulation import run
from tidegate_simulation.actors import Actor
from tidegate_simulation.plans.faults import LOG_KINDS, STORE_KINDS, FaultPlan

OPERATIONS = 150


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """A seed, and the part of its world that stays.

    clients: names; None if all stay.  faults: kinds that the run promises; None if all stay.  A
    pipeline, a disk cache or a link keeps its own faults, but the run does not wait for them.
    """

    seed: int
    operations: int = OPERATIONS
    clients: tuple[str, ...] | None = None
    faults: tuple[str, ...] | None = None

    @property
    def is_small(self) -> bool:
        """Return whether clients or faults are left out."""
        return self.clients is not None or self.faults is not None

    @contextmanager
    def held(self) -> Generator[None]:
        """Leave all other clients and faults out inside the context."""
        names = run.__dict__
        with pytest.MonkeyPatch.context() as patch:
            if self.clients is not None:
                patch.setattr(run, "make_actors", _only_clients(self.clients, names["make_actors"]))
            if self.faults is not None:
                patch.setattr(run, "draw_run", _only_faults(self.faults, names["draw_run"]))
            yield


def _only_clients(names: Collection[str], real: Any) -> Any:
    def make(*arguments: Any) -> list[Actor]:
        return [each for each in real(*arguments) if each.client.name in names]

    return make


def _only_faults(kinds: Collection[str], real: Any) -> Any:
    def draw(seed: int, rng: Random, asked_zones: int) -> tuple[dict[str, str], FaultPlan]:
        settings, plan = real(seed, rng, asked_zones)
        return settings, _without_others(plan, kinds)

    return draw


def _without_others(plan: FaultPlan, kinds: Collection[str]) -> FaultPlan:
    return replace(
        plan,
        kinds=tuple(each for each in plan.kinds if each in kinds),
        events=tuple(each for each in plan.events if each in kinds),
        log=replace(plan.log, **_no_rates("log.", LOG_KINDS, kinds)),
        store=replace(plan.store, **_no_rates("store.", STORE_KINDS, kinds)),
        skew_seconds=plan.skew_seconds if "skew" in kinds else 0.0,
        clock_rate=plan.clock_rate if "drift" in kinds else 1.0,
    )


def _no_rates(prefix: str, names: Collection[str], kinds: Collection[str]) -> dict[str, Any]:
    return {each: 0.0 for each in names if f"{prefix}{each}" not in kinds}
