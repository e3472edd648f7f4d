"""One seed of the second tier."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any, Final

import structlog

from tidegate_coordination.state.broken import StateBroken

from .callers.everyone import operations_of
from .world import Violation, World

_CHECKED: Final = 100
"""Operations between two checks of the whole state."""
_MOST_VIOLATIONS: Final = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a seed.

    decided: how often each kind of proposal led to events.  folded: how often each kind of event
    was folded.
    """

    seed: int
    operations: int
    entries: int
    conflicts: int
    violations: tuple[Violation, ...]
    decided: Mapping[type, int]
    folded: Mapping[type, int]


def run(seed: int, operations: int) -> Outcome:
    """Run a seed; the same one gives the same outcome on every machine."""
    world = World(Random(seed))
    # Log lines would only repeat the violations.
    with _silence():
        try:
            _run(world, operations)
        except StateBroken as error:
            world.complain(f"an entry cannot be folded: {error}")
        except KeyError as error:  # a promise looks up a row before the fold
            world.complain(f"an entry names a row that is not there: {error}")
    return Outcome(
        seed,
        world.operation,
        world.truth.position,
        sum(each.lost_conflicts for each in world.deciders),
        tuple(world.violations),
        world.decided,
        world.folded,
    )


def _run(world: World, operations: int) -> None:
    weighed = operations_of(world)
    kinds = [kind for kind, _ in weighed]
    weights = list(accumulate(weight for _, weight in weighed))
    for number in range(1, operations + 1):
        world.operation = number
        world.pass_time()
        decider = world.live()
        if decider is not None:
            world.rng.choices(kinds, cum_weights=weights)[0](decider)
        world.step(world.rng.choice(world.deciders))
        if number % _CHECKED == 0 or number == operations:
            world.check()
        if len(world.violations) >= _MOST_VIOLATIONS:
            return


@contextmanager
def _silence() -> Generator[None]:
    before = structlog.get_config()
    structlog.configure(processors=[_drop])
    try:
        yield
    finally:
        structlog.configure(**before)


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent
