"""The simulator must find gateways that let a batch overtake an abandoned one of its connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.worlds.planted_bugs import must_be_found
from tidegate_coordination.state.records.producer_ids import ProducerIdTable
from tidegate_gateway.produce import wal_commits
from tidegate_simulation.plans import expiry_plan


class Forgetful(set[Any]):
    """A set that stays empty."""

    def update(self, *_: Iterable[Any]) -> None:
        pass

    def add(self, _: Any) -> None:
        pass


def lets_batches_overtake(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wal_commits, "WeakSet", Forgetful)
    # Else the log knows that an id was just given out, and begins at sequence zero.
    patch.setattr(expiry_plan, "SHARE", 1.0)  # these runs have producers that repeat nothing
    patch.setattr(ProducerIdTable, "is_young", lambda self, producer_id: False)


def test_a_batch_that_overtakes_an_abandoned_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(lets_batches_overtake, {"invariant 6"}, 11, monkeypatch)
