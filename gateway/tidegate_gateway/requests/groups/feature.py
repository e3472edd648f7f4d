"""The feature of consumer groups."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from ...counting.slow_requests import Waits
from ...feature import Feature, Ground, Row, Task
from ...groups.group_manager import GroupManager
from ...migration.forward.groups import GroupForwards
from ...topics.internal_topics import InternalTopics
from ...zones.cluster_view import ClusterView
from .acts import groups_deleted, joined, left, offsets_deleted
from .delete_groups import DeleteGroups
from .describe_groups import DescribeGroups
from .find_coordinator import FindCoordinator
from .forwarded import (
    ForwardedHeartbeat,
    ForwardedJoinGroup,
    ForwardedLeaveGroup,
    ForwardedOffsetCommit,
    ForwardedOffsetDelete,
    ForwardedSyncGroup,
)
from .guards import (
    guard_delete_groups,
    guard_describe_groups,
    guard_find_coordinator,
    guard_heartbeat,
    guard_join_group,
    guard_leave_group,
    guard_list_groups,
    guard_offset_commit,
    guard_offset_delete,
    guard_sync_group,
)
from .heartbeat import Heartbeat
from .join_group import JoinGroup
from .leave_group import LeaveGroup
from .list_groups import ListGroups
from .metrics import group_metrics
from .offset_commit import OffsetCommit
from .offset_delete import OffsetDelete
from .offset_fetch import OffsetFetch
from .offset_fetch_guard import guard_offset_fetch
from .sync_group import SyncGroup

MAX_PROTOCOLS: Final = 10_000
"""The most protocols of one JoinGroup request."""


def groups_feature(
    ground: Ground,
    groups: GroupManager,
    forwards: GroupForwards,
    view: ClusterView,
) -> Feature:
    """Return the feature."""
    topics = InternalTopics(ground.coordinator, ground.settings, ground.new_topic_id)
    find = FindCoordinator(ground.coordinator, topics, groups, view)
    return Feature(
        "groups",
        (
            Row(find, guard_find_coordinator, is_brief=True),
            *_member_rows(ground, groups, forwards),
            *_offset_rows(ground, groups, forwards),
            Row(ListGroups(ground.coordinator, groups, forwards), guard_list_groups, lists=True),
            Row(DescribeGroups(groups, forwards), guard_describe_groups),
            Row(
                DeleteGroups(groups, forwards),
                guard_delete_groups,
                max_elements=10_000,
                act=groups_deleted,
                is_audited=True,
            ),
        ),
        (Task("serve the timers of groups", groups.run),),
        facts=partial(group_metrics, ground.coordinator.state, ground.cluster),
    )


def _member_rows(ground: Ground, groups: GroupManager, forwards: GroupForwards) -> Iterator[Row]:
    coordinator = ground.coordinator
    yield Row(
        ForwardedJoinGroup(JoinGroup(groups), forwards, coordinator),
        guard_join_group,
        is_brief=True,
        holds_nothing=True,
        waits=Waits.FOR_MEMBERS,
        is_of_members=True,
        max_elements=MAX_PROTOCOLS,
        act=joined,
    )
    yield Row(
        ForwardedSyncGroup(SyncGroup(groups), forwards, coordinator),
        guard_sync_group,
        is_brief=True,
        holds_nothing=True,
        waits=Waits.FOR_MEMBERS,
        is_of_members=True,
        max_elements=20_000,  # assignments
    )
    heartbeat = ForwardedHeartbeat(Heartbeat(groups), forwards, coordinator)
    yield Row(heartbeat, guard_heartbeat, is_brief=True)
    yield Row(
        ForwardedLeaveGroup(LeaveGroup(groups), forwards, coordinator),
        guard_leave_group,
        is_brief=True,
        is_of_members=True,
        max_elements=10_000,  # members
        act=left,
    )


def _offset_rows(ground: Ground, groups: GroupManager, forwards: GroupForwards) -> Iterator[Row]:
    coordinator = ground.coordinator
    yield Row(
        ForwardedOffsetCommit(OffsetCommit(coordinator, groups), forwards, coordinator),
        guard_offset_commit,
        is_of_members=True,
    )
    yield Row(
        OffsetFetch(coordinator, forwards), guard_offset_fetch, is_of_members=True, lists=True
    )
    yield Row(
        ForwardedOffsetDelete(OffsetDelete(coordinator, groups), forwards, coordinator),
        guard_offset_delete,
        act=offsets_deleted,
        is_audited=True,
    )
