"""The simulator must find gateways that let a batch overtake an earlier batch of its connection.

The earlier batch was abandoned, left out because its client had left, or refused because no thread
was free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import trio

from tests.worlds.planted_bugs import must_be_found
from tidegate_coordination.state.records.producer_ids import ProducerIdTable
from tidegate_gateway.produce import wal_commits
from tidegate_gateway.produce.produce_times import ObjectTimes
from tidegate_gateway.produce.wal_commits import WalCommits
from tidegate_gateway.requests.records import produce
from tidegate_simulation.plans import expiry_plan
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_storage.objects.wal import SealedWal


class Forgetful(set[Any]):
    """A set that stays empty."""

    def update(self, *_: Iterable[Any]) -> None:
        pass

    def add(self, _: Any) -> None:
        pass


def lets_batches_overtake(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wal_commits, "WeakSet", Forgetful)
    takes_any_first_sequence(patch)


def commits_later_ones_of_clients_that_left(patch: pytest.MonkeyPatch) -> None:
    """A late object omits batches of clients that left; the next object commits later batches."""

    def left(self: Any, wal: SealedWal, of_object: ObjectTimes) -> frozenset[int]:
        if trio.current_time() - of_object.sealed_at < wal_commits.LATE_SECONDS:
            return frozenset()
        clients = enumerate(wal_commits._clients(wal))
        return frozenset(at for at, each in clients if each and each.is_gone())

    patch.setattr(WalCommits, "_batches_left", left)
    patch.setattr(wal_commits, "LATE_SECONDS", 0.5)  # so that more objects are late
    takes_any_first_sequence(patch)


def forgets_what_no_thread_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(produce, "_note_order", lambda *_: None)
    takes_any_first_sequence(patch)


def takes_any_first_sequence(patch: pytest.MonkeyPatch) -> None:
    # Else the rule requires that the first batch of a young producer id has sequence 0.
    patch.setattr(expiry_plan, "SHARE", 1.0)  # these runs have Newcomers, which repeat no batch
    patch.setattr(ProducerIdTable, "is_young", lambda self, producer_id: False)


def is_late(plan: FaultPlan) -> bool:
    return "store_outage" in plan.kinds or plan.store.hung > 0 or plan.store.slow_seconds > 4


def lacks_threads(plan: FaultPlan) -> bool:
    return plan.malformed.no_thread > 0


def test_a_batch_that_overtakes_an_abandoned_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(lets_batches_overtake, {"invariant 6"}, 11, monkeypatch)


def test_a_batch_that_overtakes_one_of_a_client_that_left_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant, kinds = commits_later_ones_of_clients_that_left, {"invariant 6", "refused send"}
    must_be_found(plant, kinds, 68, monkeypatch, is_late)


def test_a_batch_that_overtakes_one_without_a_thread_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant, kinds = forgets_what_no_thread_looked_at, {"invariant 6"}
    must_be_found(plant, kinds, 3, monkeypatch, lacks_threads, malformed=True)
