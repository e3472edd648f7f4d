"""The bytes of this release leave room for tenants (decision 48): a later release folds their names
beside those of tenant 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.worlds.later_release import LaterState, later_release, rows_of
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import links as kev
from tidegate_coordination.events import security as sev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.cluster import Event
from tidegate_coordination.events.entries import EVENTS, decode_entry, encode_entry, encode_events
from tidegate_coordination.events.metadata_versions import NEWEST, TENANTS, ReleaseTooOld
from tidegate_coordination.security.acls import Acl
from tidegate_coordination.security.quotas import QuotaChange, QuotaEntity
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC

NOW_MS = 1_000_000
ACME = 5
SOURCE = "s" * 22
SOURCE_ID = b"m" * 16
"""The id at the source of the topic that both tenants mirror."""
PARTITIONS = 5
"""Of the topics of one tenant."""
WITH_TENANT = {each for each in EVENTS if "tenant" in each.__struct_fields__}


@pytest.fixture(autouse=True)
def _later() -> Iterator[None]:
    with later_release():
        yield


def stored(tenant: int, name: bytes) -> bytes:
    """Return the stored id of a tenant's topic."""
    return bytes((tenant,)) + name * 15


def story(tenant: int, first: int) -> list[Event]:
    """Return events of a tenant; every tenant has the same names.

    first: the number of its first partition.
    """
    return [
        *_of_topics(tenant),
        *_of_groups(tenant),
        *_of_transactions(tenant, first),
        *_of_links(tenant),
        *_of_security(tenant),
    ]


def _of_topics(tenant: int) -> list[Event]:
    orders = stored(tenant, b"o")
    return [
        ev.TopicCreated(orders, "orders", 2, 1, {}, tenant),
        ev.PartitionsAdded(orders, 3),
        ev.TopicCreated(stored(tenant, b"c"), OFFSETS_TOPIC, 1, 1, {}, tenant),
        ev.ConfigsSet(2, "orders", {"retention.ms": "1"}, tenant),
        ev.ConfigsSet(32, "g", {"consumer.session.timeout.ms": "1"}, tenant),
    ]


def _offset(tenant: int, partition: int, offset: int) -> gev.CommittedOffset:
    return gev.CommittedOffset(stored(tenant, b"o"), partition, offset, -1, "", NOW_MS)


def _of_groups(tenant: int) -> list[Event]:
    return [
        ev.ClaimTaken("group/g", 1, 1, tenant),
        ev.ClaimTaken("import/old", 1, 1, tenant),
        ev.ClaimReleased("import/old", tenant),
        gev.GroupChanged("g", 1, "consumer", 1, "range", "m", (), tenant),
        gev.OffsetsCommitted("g", 1, (_offset(tenant, 0, 1), _offset(tenant, 1, 1)), tenant),
        gev.OffsetsDeleted("g", ((stored(tenant, b"o"), 1),), tenant),
        gev.GroupChanged("h", 1, "consumer", 1, None, None, (), tenant),
        gev.GroupDeleted("h", tenant),
    ]


def _of_transactions(tenant: int, first: int) -> list[Event]:
    producer = 1_000 + tenant
    marks = (0, producer, 1, ((first, 0),), NOW_MS, tev.CAUSE_CLIENT)
    return [
        tev.TransactionalIdInitialised("x", producer, 0, -1, -1, 60_000, tenant),
        tev.TransactionGrew(producer, (first,), ("g",)),
        tev.OffsetsStaged(producer, "g", 1, (_offset(tenant, 0, 7),), tenant),
        tev.TransactionEnded(producer, True, *marks),
        tev.TransactionalIdInitialised("y", producer + 100, 0, -1, -1, 60_000, tenant),
        tev.TransactionalIdsExpired(("y",), tenant),
    ]


def _of_links(tenant: int) -> list[Event]:
    topic_id = stored(tenant, b"m") if tenant else SOURCE_ID
    topic = kev.LinkedTopic(topic_id, "mirrored", 1, 3, {}, SOURCE_ID if tenant else b"")
    fenced = (kev.FencedTopic(topic_id, ""),)
    fence, group_fence = (4, 2) if tenant else (1, 1)
    member = kev.ForwardedMember("billing", "c-1", 3, "c-1", 45_000, -1)
    return [
        kev.LinkSet("old", SOURCE, "h:9092", ("mirrored.*",), tenant),
        kev.TopicsLinked("old", (topic,), tenant),
        kev.TopicsFenced(fence, "old", fenced, tenant),
        kev.FenceReached(fence, 1),
        kev.TopicsSwitched(fence),
        kev.TopicsReversing("old", (topic_id,), tenant),
        kev.ReverseEnded((topic_id,), "another client"),
        kev.TopicsReversing("old", (topic_id,), tenant),
        kev.ReturnFenced(fence + 1, "old", (topic_id,), tenant),
        kev.TopicsReturned(fence + 1, ()),
        kev.TopicsFenced(fence + 2, "old", fenced, tenant),
        kev.TopicsSwitched(fence + 2),
        kev.SwitchesFinished("old", (topic_id,), tenant),
        kev.GroupsFenced(group_fence, "old", ("billing",), tenant),
        kev.GroupFenceReached(group_fence, 1, (member,)),
        kev.GroupsMoved(group_fence),
        kev.LinkSet("spare", SOURCE, "h:9092", (), tenant),
        kev.LinkRemoved("spare", tenant),
    ]


def _of_security(tenant: int) -> list[Event]:
    quota = QuotaChange(QuotaEntity("a"), "producer_byte_rate", 1_024.0)
    times = NOW_MS, NOW_MS + 9, NOW_MS + 5
    tokens = [DelegationToken(each, "User:a", "User:a", (), *times) for each in ("t", "u")]
    return [
        sev.AclsChanged((Acl(2, 4, "orders", "User:a", "*", 3, 3),), (), tenant),
        sev.ScramCredentialSet("a", 1, b"salt", b"\1" * 32, b"\2" * 32, 4_096, tenant),
        sev.ScramCredentialSet("b", 1, b"salt", b"\1" * 32, b"\2" * 32, 4_096, tenant),
        sev.ScramCredentialRemoved("b", 1, tenant),
        sev.ScramCredentialSealed("c", 2, 4_096, b"\1" * 8, b"\2" * 12, b"\3" * 48, tenant),
        sev.ClientQuotasSet((quota,), tenant),
        *(sev.DelegationTokenSet(each, tenant) for each in tokens),
        sev.DelegationTokensRemoved(("u",), tenant),
    ]


def fold(state: ClusterState, events: Iterable[Event], writer: int = 1) -> None:
    """Fold events as a replica reads them, each from a separate entry."""
    for event in events:
        payload = encode_entry(b"n", writer, NOW_MS, encode_events([event]))
        state.apply(state.position + 1, decode_entry(payload, state.position + 1))


def begun(state: ClusterState) -> ClusterState:
    """Fold a gateway and the names of tenant 0 into a state."""
    gateway = ev.GatewayRegistered(1, 1, "k", "az", (), "0", 0)
    fold(state, [ev.ClusterCreated("c" * 22, 1), gateway], writer=0)
    fold(state, [ev.MetadataVersionSet(NEWEST), *story(0, 0)])
    return state


def with_acme(state: LaterState) -> LaterState:
    """Raise a cluster to the level of tenants, and add another tenant."""
    fold(state, [ev.MetadataVersionSet(TENANTS), *story(ACME, PARTITIONS)])
    return state


@pytest.fixture
def later() -> LaterState:
    """Return a cluster with two tenants."""
    state = LaterState()
    begun(state)
    return with_acme(state)


def test_the_story_has_every_event_with_a_name() -> None:
    assert {type(each) for each in story(0, 0)} >= WITH_TENANT


def test_another_tenant_has_all_names_again_and_tenant_0_keeps_its_bytes(
    later: LaterState,
) -> None:
    present, former = rows_of(later), rows_of(begun(ClusterState()))
    for table in ("switches", "link_groups"):  # their counter is shared by all tenants
        assert present[table].pop("next") > former[table].pop("next")
    assert present == former
    acme = later.of(ACME)
    assert set(acme.topics.by_name) == set(later.topics.by_name)
    assert {each.group_id for each in acme.groups} == {each.group_id for each in later.groups}
    assert set(acme.transactions.names()) == set(later.transactions.names()) == {"x"}
    assert rows_of(acme).keys() == rows_of(later).keys()
    for table in ("acls", "scram", "scram_sealed", "quotas", "tokens", "claims", "links"):
        assert rows_of(acme)[table] == rows_of(later)[table] != []


def test_both_tenants_mirror_one_source(later: LaterState) -> None:
    of_acme = later.of(ACME).topics.by_shown_id[SOURCE_ID]
    assert of_acme.topic_id == stored(ACME, b"m")
    assert later.topics.by_shown_id[SOURCE_ID].topic_id == SOURCE_ID


def test_partitions_are_numbered_for_all_tenants(later: LaterState) -> None:
    for tenant, first in ((0, 0), (ACME, PARTITIONS)):
        topics = later.of(tenant).topics.by_name.values()
        numbers = [number for each in topics for number in each.partition_numbers]
        assert sorted(numbers) == list(range(first, first + PARTITIONS))


def test_an_internal_topic_of_one_partition_has_the_records_of_its_tenant(
    later: LaterState,
) -> None:
    ends = [
        later.partitions[number].next_offset
        for tenant in (0, ACME)
        for number in later.of(tenant).topics.by_name[OFFSETS_TOPIC].partition_numbers
    ]
    assert ends[0] == ends[1] > 0


def test_the_end_of_a_topic_is_its_tenants_alone(later: LaterState) -> None:
    before = rows_of(later)
    fold(later, [ev.TopicDeleted(stored(ACME, b"o"))])
    assert rows_of(later) == before
    assert "orders" not in later.of(ACME).topics.by_name
    group = later.of(ACME).groups.get("g")
    assert group is not None
    assert not group.offsets


def test_a_later_release_begins_with_a_snapshot_of_this_one() -> None:
    data = begun(ClusterState()).encode()
    state = LaterState.decode(data)
    assert state.encode() == data
    assert rows_of(with_acme(state).of(ACME))["topics"]


def test_a_snapshot_has_the_rows_of_other_tenants_apart(later: LaterState) -> None:
    data = later.encode()
    assert LaterState.decode(data).encode() == data


def test_this_release_refuses_the_level_and_its_snapshots(later: LaterState) -> None:
    with pytest.raises(ReleaseTooOld, match="Run the release that the other gateways run"):
        ClusterState.decode(later.encode())
    today = begun(ClusterState())
    with pytest.raises(ReleaseTooOld):
        fold(today, [ev.MetadataVersionSet(TENANTS)])


def test_one_table_of_names_cannot_hold_two_tenants() -> None:
    today = begun(ClusterState())
    with pytest.raises(StateBroken, match="topic name orders is taken"):
        fold(today, story(ACME, PARTITIONS))
