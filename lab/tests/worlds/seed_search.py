"""Finds the cheapest worlds that show a planted bug: few operations, few clients, few faults.

The search tries small parts of the worlds of many seeds.  It stops a run that takes more CPU time
than the best world so far.  Then it leaves out clients and faults of the best world, as long as the
bug is still found.  It keeps no world in which a run without the bug finds anything.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Any, Final, Protocol

import pytest
import trio

from tests.worlds.small_worlds import SmallWorld
from tidegate_simulation import actors, run
from tidegate_simulation.run import Report
from tidegate_simulation.world.tasks.livelock import LivelockGuard

BUDGET_SECONDS: Final = 20.0  # of CPU time, for a bug; again after the search for a whole world
KEPT_WORLDS: Final = 2
_FIRST_LIMIT_SECONDS: Final = 1.0
_WHOLE_LIMIT_SECONDS: Final = 60.0
_GOOD_SECONDS: Final = 0.3  # near the time of the smallest worlds
_STEPS_A_LOOK: Final = 500


class Bug(Protocol):
    """A bug that a test plants."""

    def find(self, world: SmallWorld) -> bool:
        """Run a world with the bug; return whether it was found."""
        ...

    def run_without(self, world: SmallWorld) -> Report:
        """Run a world without the bug."""
        ...

    def faults_of(self, seed: int) -> tuple[str, ...]:
        """Return the kinds of faults that a seed draws."""
        ...

    def seeds(self, first: int) -> Iterable[int]:
        """Yield the seeds whose run can show the bug."""
        ...


@dataclass(frozen=True, slots=True)
class Trial:
    """A run that found the bug: its CPU time, its clients and its promised faults."""

    world: SmallWorld
    seconds: float
    clients: tuple[str, ...]
    faults: tuple[str, ...]


def cheapest_worlds(bug: Bug, first_seed: int, operations: int) -> list[Trial]:
    """Return worlds that show the bug, the cheapest first; operations: of whole worlds."""
    search = _Search(bug, [*bug.seeds(first_seed)], process_time())
    for seed in search.seeds:
        search.look_at(seed)
    if not search.trials:
        search.find_whole(operations)
        search.begun = process_time()
    if not search.trials:
        return []
    search.leave_out()
    return search.sound(search.with_other_seeds())


@dataclass(slots=True)
class _Search:
    """trials: those that found the bug."""

    bug: Bug
    seeds: Sequence[int]
    begun: float
    trials: list[Trial] = field(default_factory=list[Trial])

    @property
    def best(self) -> Trial:
        return min(self.trials, key=lambda each: each.seconds)

    def attempt(
        self, world: SmallWorld, limit_seconds: float, *, is_few: bool = False
    ) -> Trial | None:
        """Run a world.  is_few: without the clients that only some seeds draw."""
        watch = _Watch(limit_seconds)
        begun = process_time()
        with watch.held(is_few=is_few):
            is_found = self.bug.find(world)
        if not is_found or watch.is_over:
            return None
        if is_few:
            world = replace(world, clients=tuple(watch.clients))
        stays = world.clients if world.clients is not None else watch.clients
        clients = tuple(each for each in watch.clients if each in stays)
        faults = self.bug.faults_of(world.seed) if world.faults is None else world.faults
        trial = Trial(world, process_time() - begun, clients, faults)
        self.trials.append(trial)
        return trial

    def find_whole(self, operations: int) -> bool:
        """Find the bug in a whole world."""
        worlds = (SmallWorld(seed, operations) for seed in self.seeds)
        return any(self.attempt(each, _WHOLE_LIMIT_SECONDS) is not None for each in worlds)

    def look_at(self, seed: int) -> None:
        """Try small parts of a seed's world, until a good one is found."""
        for world, is_few in _parts_of(seed):
            limit_seconds = self.best.seconds if self.trials else _FIRST_LIMIT_SECONDS
            if self._is_used(0.5) or limit_seconds < _GOOD_SECONDS:
                return
            self.attempt(world, limit_seconds, is_few=is_few)

    def _is_used(self, share: float) -> bool:
        return process_time() > self.begun + share * BUDGET_SECONDS

    def leave_out(self) -> None:
        """Leave faults, then clients, out of the best world: half of them first, then fewer."""
        for name in ("faults", "clients"):
            best = self.best
            kept: tuple[str, ...] = getattr(best, name)
            for part in _halves(kept):
                if self._is_used(0.75):
                    return
                left = tuple(each for each in kept if each not in part)
                if len(left) < len(kept):
                    shape = {"faults": best.world.faults, "clients": best.world.clients, name: left}
                    smaller = SmallWorld(best.world.seed, best.world.operations, **shape)
                    trial = self.attempt(smaller, 1.2 * best.seconds)
                    best, kept = (trial, left) if trial is not None else (best, kept)

    def with_other_seeds(self) -> list[Trial]:
        """Return the best trial, then trials of its world with other seeds, then all others."""
        best = self.best
        found = [best]
        for seed in self.seeds:
            if len(found) == KEPT_WORLDS or self._is_used(1.0):
                break
            if seed != best.world.seed:
                world = replace(best.world, seed=seed)
                trial = self.attempt(world, 2 * best.seconds + _GOOD_SECONDS)
                found += [trial] if trial is not None else []
        rest = sorted(self.trials, key=lambda each: each.seconds)
        return [*found, *(each for each in rest if each not in found)]

    def sound(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return one world of each seed in which nothing is found without the bug."""
        kept: list[Trial] = []
        for each in trials:
            is_dear = bool(kept) and each.seconds > 3 * kept[0].seconds + _GOOD_SECONDS
            is_known = each.world.seed in {other.world.seed for other in kept}
            if is_dear or is_known or len(kept) == KEPT_WORLDS:
                continue
            if not each.world.is_small or not self.bug.run_without(each.world).violations:
                kept.append(each)
        return kept


def _parts_of(seed: int) -> Iterator[tuple[SmallWorld, bool]]:
    """Yield small parts of a seed's world, the smallest first, and whether few clients stay."""
    yield SmallWorld(seed, 20, None, ()), True
    yield SmallWorld(seed, 20), True
    yield SmallWorld(seed, 60, None, ()), False
    yield SmallWorld(seed, 60), False


def _halves(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield all names, then halves, quarters and so on, down to single names."""
    size = len(names)
    while size:
        yield from (names[at : at + size] for at in range(0, len(names), size))
        size //= 2


class _Watch:
    """Stops a run after some CPU time, and records its clients."""

    def __init__(self, limit_seconds: float) -> None:
        self.clients: list[str] = []
        self.is_over = False
        self._drawn: set[str] = set()
        self._until = process_time() + limit_seconds

    @contextmanager
    def held(self, *, is_few: bool) -> Generator[None]:
        """Watch the runs inside the context."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "LivelockGuard", lambda: _Impatient(self))
            patch.setattr(actors, "_CASTS", tuple(self._noting(each) for each in actors._CASTS))
            for name in ("_late_admins", "_offsets_readers"):
                patch.setattr(actors, name, self._noting(getattr(actors, name)))
            patch.setattr(
                run, "make_actors", self._make(run.__dict__["make_actors"], is_few=is_few)
            )
            yield

    def _noting(self, cast: Any) -> Any:
        def noting(workload: Any) -> list[actors.Actor]:
            made: list[actors.Actor] = cast(workload)
            self._drawn.update(each.client.name for each in made)
            return made

        return noting

    def _make(self, real: Any, *, is_few: bool) -> Any:
        def make(*arguments: Any) -> list[actors.Actor]:
            made: list[actors.Actor] = real(*arguments)
            if is_few:
                made = [each for each in made if each.client.name not in self._drawn]
            self.clients = [each.client.name for each in made]
            return made

        return make


class _Impatient(LivelockGuard):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        super().before_task_step(task)
        if self.steps % _STEPS_A_LOOK == 0 and process_time() > self._watch._until:
            self._watch.is_over = True
            self.scope.cancel()
