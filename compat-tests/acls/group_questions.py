"""Questions about groups and their offsets.  Pure."""

from __future__ import annotations

from typing import Any

from acls.world import World
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import leave_group as lg
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import txn_offset_commit as toc
from tidegate_protocol.primitives import ZERO_UUID

from .rights import GROUP, HIDDEN_TOPIC, TOPIC, TRANSACTIONAL_ID


def offset_commit(version: int, world: World) -> list[tuple[str, Any]]:
    topics = [
        oc.OffsetCommitRequestTopic(
            name if version < 10 else "",
            world.topic_ids[name] if version >= 10 else ZERO_UUID,
            [oc.OffsetCommitRequestPartition(0, 1)],
        )
        for name in (TOPIC, HIDDEN_TOPIC)
    ]
    return [("two", oc.OffsetCommitRequest(GROUP, topics=topics))]


def offset_fetch(version: int, world: World) -> list[tuple[str, Any]]:
    if version < 8:
        topics = [of.OffsetFetchRequestTopic(name, [0]) for name in (TOPIC, HIDDEN_TOPIC)]
        found: list[tuple[str, Any]] = [("two", of.OffsetFetchRequest(GROUP, topics))]
        if version >= 2:
            found.append(("all", of.OffsetFetchRequest(GROUP, None)))
        return found
    several = [
        of.OffsetFetchRequestTopics(
            name if version < 10 else "",
            world.topic_ids[name] if version >= 10 else ZERO_UUID,
            [0],
        )
        for name in (TOPIC, HIDDEN_TOPIC)
    ]
    groups = [
        of.OffsetFetchRequestGroup(GROUP, topics=several),
        of.OffsetFetchRequestGroup("another", topics=None),
    ]
    return [("two", of.OffsetFetchRequest(groups=groups))]


def find(version: int, _: World) -> list[tuple[str, Any]]:
    if version < 4:
        found = [("group", fc.FindCoordinatorRequest(GROUP, 0))]
        return (
            [*found, ("id", fc.FindCoordinatorRequest(TRANSACTIONAL_ID, 1))] if version else found
        )
    return [
        ("group", fc.FindCoordinatorRequest("", 0, [GROUP, "another"])),
        ("id", fc.FindCoordinatorRequest("", 1, [TRANSACTIONAL_ID, "another"])),
    ]


def leave(version: int, _: World) -> list[tuple[str, Any]]:
    if version < 3:
        return [("one", lg.LeaveGroupRequest(GROUP, "m"))]
    return [("one", lg.LeaveGroupRequest(GROUP, members=[lg.MemberIdentity("m")]))]


def txn_commit(_version: int, _world: World) -> list[tuple[str, Any]]:
    topics = [
        toc.TxnOffsetCommitRequestTopic(each, [toc.TxnOffsetCommitRequestPartition(0, 1)])
        for each in (TOPIC, HIDDEN_TOPIC)
    ]
    return [("two", toc.TxnOffsetCommitRequest(TRANSACTIONAL_ID, GROUP, 5, 0, topics=topics))]
