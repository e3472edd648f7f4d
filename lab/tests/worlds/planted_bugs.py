"""Plants a bug by replacing a part from outside, and searches for a seed that finds it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Final, NamedTuple

import pytest

from tests.worlds import bug_search, rule_search
from tests.worlds.recorded_seeds import record, worlds_of
from tests.worlds.rule_search import find_in_rules, texts_of
from tests.worlds.seed_search import cheapest_worlds
from tests.worlds.small_worlds import OPERATIONS, SmallWorld
from tidegate_coordination.state.entry_trial import Trial
from tidegate_simulation.checks.checker import Violation
from tidegate_simulation.plans import inline_plan, link_plan, malformed_plan, transaction_plan
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.gateways import refused_plan
from tidegate_simulation.plans.security import bearer_plan, login_plan, sealing_plan, token_plan
from tidegate_simulation.run import Report, plan_of, simulate

SEEDS = 200
FEW_SEEDS: Final = 10  # of the second tier; together they take a second
# pytest ends the process of a test that runs for 600 s (pyproject.toml), so that other tests have
# fewer processes.  This limit is in seconds of the clock, too: on a busy machine the search may get
# half of the CPU time.
SEARCH_SECONDS: Final = 400.0
# If this many seeds only fail with an error of the code, the replaced part does not fit.
MAX_BROKEN = 3
_BROKEN = "internal error"
# A part that does not fit may end gateways, too, which does not prove the planted bug.
_MISFITS = ("TypeError", "AttributeError")

Plant = Callable[[pytest.MonkeyPatch], None]


def untried(plant: Plant) -> Plant:
    """Plant a bug without trying proposals before the append: the trial would prevent it.

    Without the trial only the rules prevent wrong events.
    """

    @wraps(plant)
    def both(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Trial, "check", lambda self, events: None)
        plant(patch)

    return both


def put_in_place(patch: pytest.MonkeyPatch, where: ModuleType, name: str, part: type) -> None:
    """Let a module use a part with a bug instead of the class that it derives from.

    A method that overrides nothing, because the class has renamed its method, would plant no bug.
    """
    inert = list(_overriding_nothing(part, getattr(where, name)))
    assert not inert, f"{part.__name__} overrides nothing by {inert}"
    patch.setattr(where, name, part)


def _overriding_nothing(part: type, parent: type) -> Iterator[str]:
    """Yield the methods that override none of a base class, except abstract methods."""
    for each in part.__mro__[: part.__mro__.index(parent)]:
        for name, value in vars(each).items():
            is_new = not any(hasattr(base, name) for base in each.__bases__)
            if is_new and callable(value) and not getattr(value, "__isabstractmethod__", False):
                yield name


def must_be_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
    is_concerned: Callable[[FaultPlan], bool] = lambda _: True,
    *,
    zones: int = 0,
    operations: int = OPERATIONS,
    is_concerned_seed: Callable[[int], bool] = lambda _: True,
    transactions: bool = False,
    links: bool = False,
    groups: bool = False,
    units: bool = False,
    logins: bool = False,
    tokens: bool = False,
    sealing: bool = False,
    bearers: bool = False,
    malformed: bool = False,
    refused: bool = False,
    small_writes: bool = False,
) -> None:
    """Fail unless a run shows a violation of an expected kind; bug_search.py says which runs.

    expected: kinds; with an in_rules(text) among them the second tier is searched first.
    first_seed: where the wide search begins; for recorded worlds see recorded_seeds.py.
    is_concerned: whether a plan has the part with the bug; other seeds are skipped.
    is_concerned_seed: the same, for facts that the plan does not show.  zones, operations: see
      simulate().
    transactions, links, logins: whether all runs have transactional clients, mirrored topics, or
      clients that log in.  Without them runs are shorter.
    groups, units: whether gateways forward groups, or transactional ids, of mirrored topics.
    tokens, bearers: whether some clients log in by delegation tokens, or by tokens of an identity
      provider.  sealing: whether gateways seal credentials.
    small_writes: whether small objects travel in the metadata log.
    malformed: whether a client sends malformed batches.  refused: whether the store refuses
      calls of all gateways.
    """
    monkeypatch.setattr(transaction_plan, "SHARE", float(transactions))
    monkeypatch.setattr(link_plan, "SHARE", float(links or units))
    monkeypatch.setattr(link_plan, "_TRANSACTIONS_SHARE", float(units))
    monkeypatch.setattr(login_plan, "SHARE", float(logins or tokens))
    monkeypatch.setattr(login_plan, "CALM_SHARE", float(logins or tokens))
    monkeypatch.setattr(token_plan, "SHARE", float(tokens))
    monkeypatch.setattr(sealing_plan, "SHARE", float(sealing))
    monkeypatch.setattr(bearer_plan, "SHARE", float(bearers))
    monkeypatch.setattr(malformed_plan, "SHARE", float(malformed))
    monkeypatch.setattr(inline_plan, "SHARE", float(small_writes))
    monkeypatch.setattr(refused_plan, "OF_ALL_SHARE", 8.0 * refused)
    if units:
        monkeypatch.setattr(link_plan, "_FORWARDS_SHARE", 1.0)
    monkeypatch.setattr(link_plan, "_GROUPS_SHARE", float(groups))
    bug = PlantedBug(
        _name_of(plant),
        plant,
        frozenset(expected),
        first_seed,
        zones,
        operations,
        lambda seed: is_concerned_seed(seed) and is_concerned(plan_of(seed, zones)),
    )
    _searches[bug_search.way](bug)


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """See must_be_found()."""

    name: str
    plant: Plant
    expected: frozenset[str]
    first_seed: int
    zones: int
    operations: int
    is_concerned: Callable[[int], bool]

    @property
    def in_rules(self) -> list[str]:
        """Return the texts by which the second tier shows the bug."""
        return texts_of(self.expected)

    @contextmanager
    def planted(self) -> Generator[None]:
        """Have the bug inside the context."""
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            yield

    def find(self, world: SmallWorld) -> bool:
        """Run a world with the bug; return whether it was found."""
        return self.look(world).is_found

    def look(self, world: SmallWorld) -> Look:
        """Run a world with the bug."""
        with self.planted(), world.held():
            report = simulate(world.seed, world.operations, self.zones, stop_at=self.expected)
        misfits = [each for each in report.violations if _is_misfit(each)]
        others = {each.kind for each in report.violations if each not in misfits}
        return Look(bool(self.expected & others), f"{misfits} in {world}" if misfits else "")

    def run_without(self, world: SmallWorld) -> Report:
        """Run a world without the bug."""
        with world.held():
            return simulate(world.seed, world.operations, self.zones)

    def faults_of(self, seed: int) -> tuple[str, ...]:
        """Return the kinds of faults that a seed draws."""
        with self.planted():
            return plan_of(seed, self.zones).kinds

    def seeds(self, first: int) -> Iterator[int]:
        """Yield the seeds whose runs can show the bug, out of SEEDS ones from the first on."""
        for seed in range(first, first + SEEDS):
            with self.planted():
                is_concerned = self.is_concerned(seed)
            if is_concerned:
                yield seed


class Look(NamedTuple):
    """misfits: signs that the planted part does not fit the code."""

    is_found: bool
    misfits: str


def _name_of(plant: Plant) -> str:
    """Return the name of a bug in records: the test's file and the plant."""
    return f"{Path(_test_id().partition('::')[0]).stem} {plant.__name__}"


def _test_id() -> str:
    return os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]


def _look_in_few_worlds(bug: PlantedBug) -> None:
    """Look in the second tier, or else in recorded worlds.

    If a recorded world no longer shows the bug, the search goes through whole worlds.
    """
    if bug.in_rules:
        hints = [each.seed for each in worlds_of(bug.name)]
        seed = find_in_rules(bug.planted, bug.in_rules, hints)
        print(f"found in seed {seed} of the second tier")
        return
    for world in worlds_of(bug.name):
        if bug.look(world).is_found:
            return
        print(_stale(bug))
    _look_in_many_seeds(bug)


def _stale(bug: PlantedBug) -> str:
    return (
        f"{bug.name} is not found in a recorded world.  This command records others:\n"
        f"    .venv/bin/python -m pytest --planted-bugs=record '{_test_id()}'"
    )


def _look_in_many_seeds(bug: PlantedBug) -> None:
    broken, until = 0, monotonic() + SEARCH_SECONDS
    for runs, seed in enumerate(bug.seeds(bug.first_seed), 1):
        if monotonic() > until:
            pytest.fail(f"not found in {runs - 1} runs of {SEARCH_SECONDS:.0f} s; begin elsewhere")
        look = bug.look(SmallWorld(seed, bug.operations))
        if look.is_found:
            # If the search takes more than a few runs, choose another first_seed.
            print(f"found in seed {seed}, run {runs}")
            return
        broken += bool(look.misfits)
        if broken == MAX_BROKEN:
            pytest.fail(f"the planted part does not fit: {look.misfits}")
    pytest.fail(f"not found in {SEEDS} seeds")


def _look_wide(bug: PlantedBug) -> None:
    """Fail unless whole worlds and a recorded one show the bug, and recorded ones nothing else."""
    _look_in_many_seeds(bug)
    small = [each for each in worlds_of(bug.name) if each.is_small]
    for each in small:
        violations = bug.run_without(each).violations
        assert not violations, f"found without the bug in {each}: {violations}"
    if small and not any(bug.find(each) for each in small):
        pytest.fail(_stale(bug))


def _record_worlds(bug: PlantedBug) -> None:
    """Record small worlds that show the bug, or else a whole world.

    In a whole world any change of the order of tasks may hide the bug.  A seed of the second tier
    is recorded only if it is not among the first ones, which tests always try.
    """
    if bug.in_rules:
        seed = find_in_rules(bug.planted, bug.in_rules)
        record(bug.name, [SmallWorld(seed, rule_search.OPERATIONS)] if seed > FEW_SEEDS else [])
        return
    trials = cheapest_worlds(bug, bug.first_seed, bug.operations)
    assert trials, f"{bug.name}: no world found"
    print(f"{bug.name}: {trials[0].seconds:.2f} s of CPU in {trials[0].world}")
    worlds = [each.world for each in trials]
    record(bug.name, [each for each in worlds if each.is_small] or worlds[:1])


_searches: Final = {
    "recorded": _look_in_few_worlds,
    "wide": _look_wide,
    "record": _record_worlds,
}


def _is_misfit(violation: Violation) -> bool:
    return violation.kind == _BROKEN or any(each in violation.text for each in _MISFITS)
