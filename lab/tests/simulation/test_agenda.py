"""The choice of the next event and its victim, and the end of a late run."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tidegate_simulation.nemesis.agenda import Agenda
from tidegate_simulation.plans.strikes import Strikes
from tidegate_simulation.run import simulate

UP: Any = SimpleNamespace(name="up", is_up=True)
DOWN: Any = SimpleNamespace(name="down", is_up=False)


class Planned:
    """An agenda of the kinds "a" and "b", of which "b" has landed."""

    def __init__(self, *, is_late: bool = False) -> None:
        self.late = trio.Event()
        if is_late:
            self.late.set()
        strikes = Strikes(("a", "b"), Random(1))
        strikes.count("b")
        plan = SimpleNamespace(events=("a", "b"), event_seconds=1000.0)
        world: Any = SimpleNamespace(strikes=strikes, plan=plan, late=self.late)
        self.agenda = Agenda(world, [DOWN, UP, DOWN], (), Random(1))


async def test_a_landed_kind_repeats_only_while_the_run_is_not_late() -> None:
    agenda = Planned().agenda
    assert [begun and begun[0] for begun in (agenda.begin(), agenda.begin(), agenda.begin())] == [
        "a",
        "b",
        None,
    ]
    agenda = Planned(is_late=True).agenda
    assert [agenda.begin(), agenda.begin()] == [("a", UP), None]


async def test_a_run_that_becomes_late_stops_waiting(autojump_clock: MockClock) -> None:
    planned = Planned()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(planned.agenda.wait)
        nursery.start_soon(planned.agenda.end, "a", 1000.0)
        await trio.sleep(1.0)
        planned.late.set()
    assert trio.current_time() == 1.0


@pytest.mark.parametrize(("kind", "rests"), [("a", False), ("b", True)])
async def test_an_event_without_effect_is_repeated_at_once(
    kind: str, rests: bool, autojump_clock: MockClock
) -> None:
    planned = Planned(is_late=True)
    await planned.agenda.end(kind, 100.0)
    assert (trio.current_time() > 50.0) is rests


async def test_events_are_rare_while_a_gateway_is_absent(autojump_clock: MockClock) -> None:
    planned = Planned(is_late=True)
    times: list[float] = []
    for planned.agenda.is_awaited in (False, True):
        since = trio.current_time()
        for _ in range(20):
            await planned.agenda.wait()
        times.append(trio.current_time() - since)
    assert times[0] < 20.0
    assert times[1] > 200.0


def test_a_run_that_is_late_ends_when_all_has_landed() -> None:
    """Seed 3 draws many events for its few operations."""
    report = simulate(3, 40, 3)
    assert not report.violations, report.replay
    assert 40 < report.operations_done < 400
