"""Plants a bug by replacing a part from outside, and searches for a seed that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from tidegate_coordination.state.trial.events import Trial
from tidegate_simulation.checks.checker import Violation
from tidegate_simulation.plans import (
    bearer_plan,
    link_plan,
    login_plan,
    malformed_plan,
    refused_plan,
    sealing_plan,
    token_plan,
    transaction_plan,
)
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.run import plan_of, simulate

SEEDS = 200
OPERATIONS = 150
# If this many seeds only fail with an error of the code, the replaced part does not fit.
MAX_BROKEN = 3
_BROKEN = "internal error"
# A part that does not fit may end gateways, too, which does not prove the planted bug.
_MISFITS = ("TypeError", "AttributeError")

Plant = Callable[[pytest.MonkeyPatch], None]


def untried(plant: Plant) -> Plant:
    """Plant a bug without trying proposals before the append: the trial would prevent it.

    Only the rules are left then; they must be right by themselves.
    """

    def both(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Trial, "check", lambda self, events: None)
        plant(patch)

    both.__name__ = getattr(plant, "__name__", "")
    return both


def put_in_place(patch: pytest.MonkeyPatch, where: ModuleType, name: str, part: type) -> None:
    """Let a module use a part with a bug instead of the class that it derives from.

    A method that overrides nothing, as the one of that class has another name now, would be no bug.
    """
    inert = list(_overriding_nothing(part, getattr(where, name)))
    assert not inert, f"{part.__name__} overrides nothing by {inert}"
    patch.setattr(where, name, part)


def _overriding_nothing(part: type, parent: type) -> Iterator[str]:
    """Yield the methods that no class has before; abstract ones are a part's own."""
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
) -> None:
    """Fail unless one of SEEDS seeds shows a violation of an expected kind.

    is_concerned: whether a plan has the part with the bug; other seeds are skipped.
    is_concerned_seed: the same, for facts that the plan does not show.  zones: see simulate().
    transactions, links, groups, units, logins: whether all runs have transactional clients, or
      mirrored topics, or of these also groups or transactional ids that are forwarded, or clients
      that log in, or none, which makes them shorter.
    tokens, sealing, bearers: whether clients log in, some by delegation tokens, or to gateways that
      seal, or by tokens of an identity provider.
    malformed: whether a client sends malformed batches.  refused: whether the store refuses
      calls of all gateways.
    """
    plant(monkeypatch)
    monkeypatch.setattr(transaction_plan, "SHARE", float(transactions))
    monkeypatch.setattr(link_plan, "SHARE", float(links or units))
    monkeypatch.setattr(link_plan, "_TRANSACTIONS_SHARE", float(units))
    monkeypatch.setattr(login_plan, "SHARE", float(logins or tokens))
    monkeypatch.setattr(login_plan, "CALM_SHARE", float(logins or tokens))
    monkeypatch.setattr(token_plan, "SHARE", float(tokens))
    monkeypatch.setattr(sealing_plan, "SHARE", float(sealing))
    monkeypatch.setattr(bearer_plan, "SHARE", float(bearers))
    monkeypatch.setattr(malformed_plan, "SHARE", float(malformed))
    monkeypatch.setattr(refused_plan, "OF_ALL_SHARE", 8.0 * refused)
    if units:
        monkeypatch.setattr(link_plan, "_FORWARDS_SHARE", 1.0)
    monkeypatch.setattr(link_plan, "_GROUPS_SHARE", float(groups))
    runs = broken = 0
    for seed in range(first_seed, first_seed + SEEDS):
        if not is_concerned_seed(seed) or not is_concerned(plan_of(seed, zones)):
            continue
        runs += 1
        violations = simulate(seed, OPERATIONS, zones, stop_at=expected).violations
        misfits = [each for each in violations if _is_misfit(each)]
        found = {each.kind for each in violations if each not in misfits}
        if found & expected:
            # If it takes more than a few runs, choose a newer first_seed.
            print(f"found in seed {seed}, run {runs}: {sorted(found)}")
            return
        broken += bool(misfits)
        if broken == MAX_BROKEN:
            pytest.fail(f"the planted part does not fit: {misfits} in seed {seed}")
    pytest.fail(f"not found in {SEEDS} seeds")


def _is_misfit(violation: Violation) -> bool:
    return violation.kind == _BROKEN or any(each in violation.text for each in _MISFITS)
