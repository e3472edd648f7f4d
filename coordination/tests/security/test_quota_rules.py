"""Client quotas in the metadata log: the rule, the fold, and snapshots."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.test_wal_rules import World
from tidegate_coordination.events.metadata_versions import SECURITY
from tidegate_coordination.rules.security.quotas import AlterClientQuotas, QuotaRefusal
from tidegate_coordination.security.quotas import (
    DEFAULT,
    Bucket,
    Limit,
    QuotaChange,
    QuotaEntity,
    QuotaKey,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial

A = QuotaEntity("a")
RATE = "producer_byte_rate"


class Cluster(World):
    def propose(self, proposal: Any) -> Any:
        decided = proposal.decide(self.view())
        Trial(self.state).check(decided.events)
        if decided.events:
            self.apply(*decided.events)
        return decided.answer


@pytest.fixture
def world() -> Cluster:
    return Cluster()


def alter(world: Cluster, *changes: QuotaChange, only_checks: bool = False) -> QuotaRefusal | None:
    found: QuotaRefusal | None = world.propose(AlterClientQuotas(changes, only_checks=only_checks))
    return found


def test_quotas_are_set_changed_and_removed(world: Cluster) -> None:
    quotas = world.state.quotas
    assert (
        alter(world, QuotaChange(A, RATE, 5.0), QuotaChange(A, "request_percentage", 1.5)) is None
    )
    assert dict(quotas) == {A: {RATE: 5.0, "request_percentage": 1.5}}
    assert quotas.limit(QuotaKey.PRODUCE, "a", "c") == Limit(Bucket("a", ""), 5.0)
    assert quotas.limit(QuotaKey.FETCH, "a", "c") is None
    alter(world, QuotaChange(A, RATE, 6.0))
    assert quotas.get(A, RATE) == 6.0
    alter(world, QuotaChange(A, RATE, None), QuotaChange(A, "request_percentage", None))
    assert dict(quotas) == {}
    assert not quotas.has(QuotaKey.PRODUCE, QuotaKey.REQUEST)


def test_what_is_no_change_is_not_written(world: Cluster) -> None:
    alter(world, QuotaChange(A, RATE, 5.0))
    position, version = world.state.position, world.state.quotas.version
    assert alter(world, QuotaChange(A, RATE, 5.0)) is None
    assert alter(world, QuotaChange(QuotaEntity("b"), RATE, None)) is None
    assert alter(world, QuotaChange(A, RATE, 7.0), only_checks=True) is None
    assert (world.state.position, world.state.quotas.version) == (position, version)


def test_of_two_changes_of_a_quota_the_last_counts(world: Cluster) -> None:
    alter(world, QuotaChange(A, RATE, 5.0), QuotaChange(A, RATE, 6.0))
    assert world.state.quotas.get(A, RATE) == 6.0


def test_refusals(world: Cluster) -> None:
    wrong = QuotaChange(A, "connection_creation_rate", 5.0)
    assert alter(world, QuotaChange(A, RATE, 5.0), wrong) is QuotaRefusal.IMPOSSIBLE
    many = [QuotaChange(QuotaEntity("x" * 1_000 + str(at)), RATE, 1.0) for at in range(200)]
    assert alter(world, *many) is QuotaRefusal.TOO_LARGE
    old = Cluster(SECURITY - 1)
    assert alter(old, QuotaChange(A, RATE, 5.0)) is QuotaRefusal.NOT_YET
    assert not len(world.state.quotas)
    assert not len(old.state.quotas)


def test_rates_of_addresses(world: Cluster) -> None:
    key = "connection_creation_rate"
    quotas = world.state.quotas
    assert quotas.connection_rate("10.0.0.1") is None
    alter(world, QuotaChange(QuotaEntity(ip="10.0.0.1"), key, 5.0))
    assert quotas.connection_rate("::ffff:10.0.0.1") == 5.0
    assert quotas.connection_rate("10.0.0.2") is None
    alter(world, QuotaChange(QuotaEntity(ip=DEFAULT), key, 7.0))
    assert quotas.connection_rate("10.0.0.1") == 5.0
    assert quotas.connection_rate("10.0.0.2") == 7.0
    alter(world, QuotaChange(QuotaEntity(ip="::ffff:10.0.0.1"), key, 6.0))
    assert quotas.connection_rate("10.0.0.1") == 6.0
    alter(world, QuotaChange(QuotaEntity(ip="::ffff:10.0.0.1"), key, None))
    assert quotas.connection_rate("10.0.0.1") == 5.0
    alter(world, QuotaChange(QuotaEntity(ip="10.0.0.1"), key, None))
    assert quotas.connection_rate("10.0.0.1") == 7.0


def test_a_snapshot_has_all_quotas(world: Cluster) -> None:
    alter(world, QuotaChange(A, RATE, 5.0), QuotaChange(QuotaEntity("a", DEFAULT), RATE, 2.5e9))
    alter(world, QuotaChange(QuotaEntity(ip="::1"), "connection_creation_rate", 5.0))
    again = ClusterState.decode(world.state.encode())
    assert dict(again.quotas) == dict(world.state.quotas)
    assert again.quotas.connection_rate("::1") == 5.0
    assert again.encode() == world.state.encode()
