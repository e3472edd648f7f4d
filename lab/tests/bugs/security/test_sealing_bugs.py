"""The simulator must find bugs of sealed SCRAM credentials, and of replacing their key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest
import trio

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.rules.security import scram as rules
from tidegate_coordination.state.security.scram import (
    KeptCredential,
    ScramCredential,
    SealedCredential,
)
from tidegate_gateway.requests.scram.scram import AlterUserScramCredentials
from tidegate_gateway.security import sealing
from tidegate_gateway.security.sealing import Sealing
from tidegate_gateway.upkeep.resealing import Resealer
from tidegate_simulation.invariants.sealing_checks import BACK, CLOSED, PLAIN
from tidegate_simulation.nemesis.key_keeper import LEFT
from tidegate_simulation.plans.faults import FaultPlan

OLD, REFUSED, DIED = "an old password got in", "a right password was refused", "gateway died"


def sets_plain_credentials(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AlterUserScramCredentials, "_kept", lambda self, credential: credential)


def leaves_plain_ones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Resealer, "_concerns", lambda self, kept: isinstance(kept, SealedCredential))


def leaves_those_of_a_former_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Resealer, "_concerns", lambda self, kept: isinstance(kept, ScramCredential))


def opens_with_the_present_key_only(patch: pytest.MonkeyPatch) -> None:
    real = Sealing.__init__

    def begin(self: Sealing, key: Any, old_keys: Iterable[Any], random_bytes: Any) -> None:
        real(self, key, (), random_bytes)

    patch.setattr(Sealing, "__init__", begin)


def seals_what_it_read_over_what_came_since(patch: pytest.MonkeyPatch) -> None:
    """Sealing takes a while, as with many users, and overwrites credentials set since."""
    real = Resealer._seal

    async def seal(self: Resealer, rows: Sequence[KeptCredential]) -> None:
        await trio.sleep(3.0)
        await real(self, rows)

    patch.setattr(Resealer, "_seal", seal)
    patch.setattr(rules, "_is_same", lambda view, change: True)


def seals_with_a_former_key(patch: pytest.MonkeyPatch) -> None:
    real = Sealing.sealed

    def sealed(self: Sealing, credential: ScramCredential) -> SealedCredential:
        former = [each for each in self._known.values() if each is not self._key]
        key = self._key
        self._key = former[-1] if former else key  # type: ignore[misc]
        try:
            return real(self, credential)
        finally:
            self._key = key  # type: ignore[misc]

    patch.setattr(Sealing, "sealed", sealed)


def seals_a_changed_credential(patch: pytest.MonkeyPatch) -> None:
    real = Resealer._change_of

    def change_of(self: Resealer, kept: KeptCredential) -> rules.Resealing | None:
        found = real(self, kept)
        if found is None:
            return None
        opened = self._sealing.opened(kept)
        changed = msgspec.structs.replace(opened, salt=opened.salt[:-1])
        return msgspec.structs.replace(found, after=self._sealing.sealed(changed))

    patch.setattr(Resealer, "_change_of", change_of)


def binds_no_user(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sealing, "_bound", lambda about: b"")


def gets_first_key(plan: FaultPlan) -> bool:
    stages = plan.logins.sealing.stages
    return plan.logins.is_focused and bool(stages) and not stages[0].key


def gets_another_key(plan: FaultPlan) -> bool:
    stages = plan.logins.sealing.stages
    return plan.logins.is_focused and bool(stages) and bool(stages[0].key)


@pytest.mark.parametrize(
    ("plant", "expected", "is_concerned", "first_seed"),
    [
        (sets_plain_credentials, {PLAIN}, gets_another_key, 5),
        (leaves_plain_ones, {LEFT}, gets_first_key, 2),
        (leaves_those_of_a_former_key, {LEFT}, gets_another_key, 5),
        (opens_with_the_present_key_only, {DIED, REFUSED}, gets_another_key, 5),
        (seals_what_it_read_over_what_came_since, {BACK}, gets_another_key, 30),
        (seals_with_a_former_key, {LEFT}, gets_another_key, 5),
        (seals_a_changed_credential, {BACK, REFUSED}, gets_first_key, 2),
        (binds_no_user, {CLOSED}, gets_first_key, 2),
    ],
)
def test_planted_bug_of_sealing_is_found(
    plant: Plant,
    expected: set[str],
    is_concerned: Callable[[FaultPlan], bool],
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned, sealing=True)
