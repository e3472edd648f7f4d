"""Committed offsets of groups, read at one cluster and committed at another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidegate_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tidegate_protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidegate_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidegate_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

from ...groups.values import State
from ..cluster import ClassicCluster
from ..errors import Refused
from ..wire.connection import MakeRequest

# The last versions for one group, and with topics by name.
_ONE_KEY: Final = 3
GROUP_KEY: Final = 0
ID_KEY: Final = 1
"""Types of keys that have a coordinator: groups, and transactional ids."""
_ONE_GROUP: Final = 7
_ALL_TOPICS_FROM: Final = 2
_STABLE_FROM: Final = 7
"""A source below 2.5 has no offsets that a transaction is about to change, which it could name."""
_NAMES: Final = 9
_NONE: Final = -1
_STATES_FROM: Final = 4


class GroupOffset(NamedTuple):
    """A committed offset.  leader_epoch: -1 for none."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


async def coordinator_of(cluster: ClassicCluster, key: str, key_type: int = GROUP_KEY) -> int:
    """Return the broker that has a group, or a transactional id.

    Raises:
      ClassicError: the cluster does not say.
    """
    answer: FindCoordinatorResponse = await cluster.call_any(
        "FindCoordinator",
        FindCoordinatorRequest(key, key_type),
        min_version=key_type,  # the first version knows groups only
        max_version=_ONE_KEY,
    )
    if answer.error_code:
        what = "transactional id" if key_type == ID_KEY else "group"
        raise Refused(f"the coordinator of {what} {key}", answer.error_code)
    return answer.node_id


async def states_of(cluster: ClassicCluster) -> dict[str, str]:
    """Return the state of each group that the cluster shows, such as Empty or Stable.

    Raises:
      ClassicError: a broker does not say.
    """
    found = await groups_of(cluster, min_version=_STATES_FROM)
    return {name: each.group_state for name, each in found.items()}


async def groups_of(cluster: ClassicCluster, *, min_version: int = 0) -> dict[str, ListedGroup]:
    """Return the groups that the cluster shows, by name.

    min_version: the lowest version of ListGroups to use.

    Raises:
      ClassicError: a broker does not say.
    """
    found: dict[str, ListedGroup] = {}
    for node_id in cluster.metadata.brokers:
        answer: ListGroupsResponse = await cluster.call_broker(
            node_id, "ListGroups", ListGroupsRequest(), min_version=min_version
        )
        if answer.error_code:
            raise Refused("ListGroups", answer.error_code)
        found |= {each.group_id: each for each in answer.groups}
    return found


async def described(cluster: ClassicCluster, group: str) -> DescribedGroup:
    """Return a group as its coordinator shows it; one that does not exist is Dead.

    Raises:
      ClassicError: the cluster does not say.
    """
    answer: DescribeGroupsResponse = await cluster.call_broker(
        await coordinator_of(cluster, group), "DescribeGroups", DescribeGroupsRequest([group])
    )
    found = answer.groups[0]
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group, group_state=State.DEAD.value)
    if found.error_code:
        raise Refused(f"the description of group {group}", found.error_code)
    return found


async def committed(cluster: ClassicCluster, group: str) -> list[GroupOffset]:
    """Return all committed offsets of a group, once no transaction is about to change them.

    Raises:
      ClassicError: the cluster does not say.
    """
    request, versions = offset_fetch(group)
    coordinator = await coordinator_of(cluster, group)
    answer = await cluster.call_broker(coordinator, "OffsetFetch", request, **versions)
    return offsets_in(answer, group)


def offset_fetch(group: str) -> tuple[MakeRequest, dict[str, int]]:
    """Return the request for all offsets of a group, and the versions that it may have."""

    def request(version: int) -> OffsetFetchRequest:
        return OffsetFetchRequest(group, None, require_stable=version >= _STABLE_FROM)

    return request, {"min_version": _ALL_TOPICS_FROM, "max_version": _ONE_GROUP}


def offsets_in(answer: OffsetFetchResponse, group: str) -> list[GroupOffset]:
    """Return the offsets of an answer to offset_fetch(); raises Refused."""
    codes = [answer.error_code, *(p.error_code for t in answer.topics for p in t.partitions)]
    for code in filter(None, codes):
        raise Refused(f"offsets of group {group}", code)
    return [
        GroupOffset(
            topic.name,
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata or "",
        )
        for topic in answer.topics
        for each in topic.partitions
        if each.committed_offset != _NONE
    ]


async def commit(cluster: ClassicCluster, group: str, offsets: Sequence[GroupOffset]) -> None:
    """Commit offsets for a group without members.

    Raises:
      ClassicError: not all offsets were committed, or the outcome is unknown; call again.
    """
    by_topic: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for each in offsets:
        by_topic[each.topic].append(
            OffsetCommitRequestPartition(
                each.partition, each.offset, each.leader_epoch, each.metadata
            )
        )
    topics = [OffsetCommitRequestTopic(name, partitions=found) for name, found in by_topic.items()]
    answer: OffsetCommitResponse = await cluster.call_broker(
        await coordinator_of(cluster, group),
        "OffsetCommit",
        OffsetCommitRequest(group, topics=topics),
        max_version=_NAMES,
    )
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                raise Refused(f"group {group} has members here", partition.error_code)
            if partition.error_code:
                raise Refused(f"the commit of group {group}", partition.error_code)
