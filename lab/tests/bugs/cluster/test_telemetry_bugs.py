"""The simulator must find bugs of the metrics that clients push, and nothing otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_gateway.telemetry import subscriptions
from tidegate_gateway.telemetry.client_values import OTHER, ClientValues
from tidegate_gateway.telemetry.instances import Instances
from tidegate_gateway.telemetry.subscriptions import Subscriptions
from tidegate_simulation.nemesis.restore_trial import draws_restore
from tidegate_simulation.probers.telemetry_trial import CHANGED, KIND, draws_telemetry
from tidegate_simulation.run import plan_of, simulate

SEED = 158
OPERATIONS = 10  # the trial in which clients push metrics comes after these operations


def shows_all_clients_as_one(patch: pytest.MonkeyPatch) -> None:
    real = ClientValues.take
    patch.setattr(ClientValues, "take", lambda self, client, *args: real(self, OTHER, *args))


def counts_a_push_twice(patch: pytest.MonkeyPatch) -> None:
    real = ClientValues._count

    def count(self: ClientValues, own: Any, name: str, delta: float, ends_ms: float) -> None:
        real(self, own, name, 2 * delta, ends_ms)

    patch.setattr(ClientValues, "_count", count)


def keeps_the_last_count_only(patch: pytest.MonkeyPatch) -> None:
    real = ClientValues.take

    def take(self: ClientValues, client: Any, *args: Any) -> None:
        known = self._known.get(client)
        if known is not None:
            known.counters.clear()
        real(self, client, *args)

    patch.setattr(ClientValues, "take", take)


def never_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClientValues, "forget_silent", lambda self, now_ms: None)


def has_no_bounds(patch: pytest.MonkeyPatch) -> None:
    def has_room(self: ClientValues, known: Any, name: str) -> bool:
        known.names.add(name)
        return True

    patch.setattr(ClientValues, "_has_room", has_room)


def gives_ids_of_its_own(patch: pytest.MonkeyPatch) -> None:
    real = Subscriptions.choice_of
    numbers: dict[int, int] = {}

    def choice_of(self: Subscriptions, *args: Any) -> subscriptions.Choice:
        number = numbers.setdefault(id(self), len(numbers))
        choice = real(self, *args)
        return choice._replace(id=choice.id ^ number)

    patch.setattr(Subscriptions, "choice_of", choice_of)


def keeps_the_first_subscription(patch: pytest.MonkeyPatch) -> None:
    real = Instances.found

    def found(self: Instances, instance_id: bytes, *args: Any) -> Any:
        known = self._by_id.get(instance_id)
        if known is not None:
            known.version = self._subscriptions.version
        return real(self, instance_id, *args)

    patch.setattr(Subscriptions, "_look", once(Subscriptions._look))
    patch.setattr(Instances, "found", found)


def once(look: Any) -> Any:
    """Return a function that looks until there is a subscription."""

    def looked(self: Subscriptions) -> None:
        if not self._texts:
            look(self)

    return looked


def is_tried(seed: int) -> bool:
    return not draws_restore(seed) and draws_telemetry(seed, plan_of(seed))


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (shows_all_clients_as_one, {"pushed and not shown"}, SEED),
        (counts_a_push_twice, {"wrong count"}, SEED),
        (keeps_the_last_count_only, {"wrong count"}, SEED),
        (never_forgets, {"not forgotten"}, SEED),
        (has_no_bounds, {"too many series"}, SEED),
        (gives_ids_of_its_own, {"subscription ids differ"}, SEED),
        (keeps_the_first_subscription, {"late subscription"}, 257),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bug_of_pushed_metrics_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(
        plant,
        expected,
        first_seed,
        monkeypatch,
        is_concerned_seed=is_tried,
        operations=OPERATIONS,
    )


def test_a_run_with_clients_that_push_finds_nothing() -> None:
    assert is_tried(SEED)
    report = simulate(SEED, OPERATIONS)
    assert not report.violations
    assert report.landed.counts[KIND]
    assert report.landed.counts[CHANGED]
    assert simulate(SEED, OPERATIONS).trace == report.trace
