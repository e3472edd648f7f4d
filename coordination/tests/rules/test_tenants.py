"""Names of other tenants: the format has a place for them, and this release neither writes them nor
reads a level that has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_type_hints

import msgspec
import pytest

from tidegate_coordination.coordinator.drafts import CannotCommit, Draft
from tidegate_coordination.events import links as kev
from tidegate_coordination.events.cluster import ClaimTaken, Event, MetadataVersionSet
from tidegate_coordination.events.entries import EVENTS
from tidegate_coordination.events.fields import structs_of
from tidegate_coordination.events.gates import (
    ABOVE_NEWEST,
    EVENT_LEVELS,
    FIELD_LEVELS,
    allowed_to,
    needed_for,
)
from tidegate_coordination.events.metadata_versions import (
    FIRST,
    LEVELS,
    NEWEST,
    TENANTS,
)
from tidegate_coordination.forwarding.messages import Sent
from tidegate_coordination.rules.proposal import Decided, View
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial

WITH_TENANT = [each for each in EVENTS if "tenant" in each.__struct_fields__]


def of_tenant(kind: type[Event], tenant: int) -> Event:
    """Return an event of a tenant whose other required fields are empty."""
    required = [each.name for each in msgspec.structs.fields(kind) if each.required]
    return kind(**dict.fromkeys(required, ()), tenant=tenant)


# Text fields of the whole cluster or of its gateways, not of a tenant.
OF_ALL_TENANTS = """
ClusterCreated.cluster_id GatewayRegistered.instance_key GatewayRegistered.zone
GatewayRegistered.software_version Endpoint.listener Endpoint.host FormerLife.zone
StaticSettingsTold.settings PipelineReport.last_error PipelineReport.dropped
LogMoveBegun.move_id LogMoveOffered.move_id LogMoveOffered.url LogMoveOffered.copy
LogMoveAnswered.move_id LogMoveAnswered.complaint LogMoved.move_id LogMoveCancelled.move_id
TimelineOpened.restore_id FormerLivesFound.restore_id SalvageEnded.restore_id
"""
OF_A_NUMBER = """
FenceLifted.reason ReverseEnded.reason GroupsUnfenced.reason
ForwardedMember.group_id ForwardedMember.member_id ForwardedMember.leader
TransactionGrew.groups
"""
"""Texts of the tenant that has the fence, the topic or the producer of the event."""


def test_an_event_without_a_tenant_has_no_name_that_people_choose() -> None:
    texts = {
        f"{struct.__name__}.{name}"
        for kind in EVENTS
        if kind not in WITH_TENANT
        for struct in structs_of(kind)
        for name, hint in get_type_hints(struct).items()
        if "str" in re.findall(r"\w+", repr(hint))
    }
    listed = {*OF_ALL_TENANTS.split(), *OF_A_NUMBER.split()}
    assert texts <= listed, "end the event with a tenant, or list the text above: it is no name"
    assert texts == listed


def test_every_event_with_a_tenant_is_gated() -> None:
    for kind in WITH_TENANT:
        assert FIELD_LEVELS[kind, "tenant"] == TENANTS


@pytest.mark.parametrize("kind", WITH_TENANT)
def test_another_tenant_needs_a_level_that_this_release_does_not_read(kind: type[Event]) -> None:
    assert TENANTS not in LEVELS
    assert needed_for([of_tenant(kind, 5)]) == TENANTS
    assert needed_for([of_tenant(kind, 0)]) == EVENT_LEVELS.get(kind, FIRST)
    assert allowed_to([MetadataVersionSet(NEWEST)], NEWEST) < TENANTS


def test_another_shown_id_needs_that_level_too() -> None:
    topic = kev.LinkedTopic(b"s" * 16, "orders", 1, 1, {})
    other = kev.LinkedTopic(b"s" * 16, "orders", 1, 1, {}, shown_id=b"t" * 16)
    assert needed_for([kev.TopicsLinked("old", (topic, other))]) == TENANTS
    assert needed_for([kev.TopicsLinked("old", (topic,))]) < NEWEST


@dataclass(frozen=True)
class Foreign:
    """A proposal of another tenant."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def decide(self, view: View) -> Decided[None]:
        return Decided((ClaimTaken("group/readers", 1, 1, tenant=5),), None)


@pytest.mark.parametrize("level", [NEWEST - 1, NEWEST])
def test_a_draft_refuses_another_tenant_before_the_trial(level: int) -> None:
    state = ClusterState()
    state.metadata_version = level
    draft: Draft[None] = Draft(state, 0, 0, max_bytes=1 << 20, may_write=True)
    with pytest.raises(CannotCommit, match="this needs"):
        draft.add(Foreign(), None)


def test_a_gate_above_all_levels_belongs_to_an_event_that_drafts_look_at() -> None:
    above = {kind for (kind, _), level in FIELD_LEVELS.items() if level > NEWEST}
    assert above == ABOVE_NEWEST | {kev.LinkedTopic}
    assert max(EVENT_LEVELS.values()) <= NEWEST


def test_a_trial_refuses_another_tenant_at_any_level() -> None:
    with pytest.raises(StateBroken, match="no tenants"):
        Trial(ClusterState()).check([kev.SwitchesFinished("old", (), tenant=5)])


class FormerSwitchesFinished(msgspec.Struct, array_like=True, frozen=True, tag=80):
    """The event as read by releases that knew no tenant in it."""

    link: str
    topic_ids: tuple[bytes, ...]


class FormerSent(msgspec.Struct, array_like=True, frozen=True):
    """A forwarded proposal as read by releases that knew no tenant in it."""

    number: int
    kind: str
    body: bytes
    again: bool = False
    is_withdrawn: bool = False
    before_ms: int = 0
    rights_as_of: int = 0


def test_forwarded_proposals_mean_the_same_to_older_releases() -> None:
    new, former = (
        Sent(7, "Renew", b"x", rights_as_of=3),
        FormerSent(7, "Renew", b"x", rights_as_of=3),
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(new), type=FormerSent) == former
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(former), type=Sent) == new


def test_finished_switches_mean_the_same_to_older_releases() -> None:
    ids = (b"t" * 16,)
    new, former = kev.SwitchesFinished("old", ids), FormerSwitchesFinished("old", ids)
    as_former = msgspec.msgpack.decode(msgspec.msgpack.encode(new), type=FormerSwitchesFinished)
    assert as_former == former
    as_new = msgspec.msgpack.decode(msgspec.msgpack.encode(former), type=kev.SwitchesFinished)
    assert as_new == new


class FormerLinkedTopic(msgspec.Struct, array_like=True, frozen=True):
    """The struct as read by releases that knew only one id of a topic."""

    topic_id: bytes
    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str]


def test_linked_topics_mean_the_same_to_older_releases() -> None:
    facts = (b"t" * 16, "orders", 1, 3, {"retention.ms": "1"})
    new, former = kev.LinkedTopic(*facts), FormerLinkedTopic(*facts)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(new), type=FormerLinkedTopic) == former
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(former), type=kev.LinkedTopic) == new
