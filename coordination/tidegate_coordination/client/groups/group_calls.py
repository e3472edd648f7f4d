"""Calls about consumer groups: those of the commands `tidegate group`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tidegate_protocol.consumer_protocol import decode_assignment
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidegate_protocol.messages.describe_groups import DescribedGroupMember
from tidegate_protocol.messages.list_groups import ListedGroup

from ...groups.values import CONSUMER_PROTOCOL_TYPE, State
from ..cluster import ClassicCluster
from ..failed import Failed
from ..source_bounds import LATEST, Place, source_offsets
from ..topic_calls import refusal
from .group_offsets import committed, coordinator_of, described, groups_of

DEAD: Final = State.DEAD.value
EMPTY: Final = State.EMPTY.value


class Member(NamedTuple):
    """A member of a group.  instance_id: "" for none.  assigned: its partitions, sorted."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    assigned: tuple[Place, ...]


class Group(NamedTuple):
    """A group.  state: Dead for one that does not exist.  coordinator: a node id.

    protocol: the name of the assignor.  is_told: False if the members are not known, as for a group
    of KIP-848.
    """

    name: str
    state: str
    protocol: str
    coordinator: int
    members: tuple[Member, ...]
    is_told: bool = True


class LagRow(NamedTuple):
    """A partition that a group has an offset of, or that a member reads.

    committed, end: None for none, or not known.  member: None for none.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Return how many offsets the group is behind; None if that is not known."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)

    @property
    def beyond(self) -> int | None:
        """Return how far the committed offset lies beyond the end; None if that is not known."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.committed - self.end)


async def listed(cluster: ClassicCluster) -> list[ListedGroup]:
    """Return all groups of all brokers, by name.

    Raises:
      ClassicError: a broker does not say.
    """
    found = await groups_of(cluster)
    return [found[name] for name in sorted(found)]


async def group_of(cluster: ClassicCluster, name: str) -> Group:
    """Return a group; its state is Dead if it does not exist.

    Raises:
      ClassicError: the cluster does not say.
    """
    told = await described(cluster, name)
    coordinator = await coordinator_of(cluster, name)
    if told.group_state == DEAD:
        # A broker of Kafka 4 describes a group of KIP-848 in another way, and only lists it.
        for each in await listed(cluster):
            if each.group_id == name:
                return Group(name, each.group_state or "unknown", "", coordinator, (), False)
    members = tuple(_member(each, told.protocol_type) for each in told.members)
    return Group(name, told.group_state, told.protocol_data, coordinator, members)


def _member(told: DescribedGroupMember, protocol_type: str) -> Member:
    assigned = _assigned(told.member_assignment) if protocol_type == CONSUMER_PROTOCOL_TYPE else ()
    return Member(
        told.member_id,
        told.group_instance_id or "",
        told.client_id,
        told.client_host,
        tuple(sorted(assigned)),
    )


def _assigned(data: bytes) -> Sequence[Place]:
    if not data:
        return ()
    try:
        topics = decode_assignment(data).assigned_partitions
    except RemoteProtocolError:
        return ()  # only the members know the format
    return [(topic.topic, index) for topic in topics for index in topic.partitions]


async def lag_of(cluster: ClassicCluster, group: Group) -> list[LagRow]:
    """Return how far a group is behind in each partition, by topic and partition.

    Raises:
      ClassicError: the cluster does not say.
    """
    offsets = {(p.topic, p.partition): p.offset for p in await committed(cluster, group.name)}
    readers = {place: member for member in group.members for place in member.assigned}
    places = sorted({*offsets, *readers})
    await cluster.refresh({topic for topic, _ in places})
    ends = await source_offsets(cluster, places, LATEST)
    return list(_rows(places, offsets, ends, readers))


def _rows(
    places: Sequence[Place],
    offsets: Mapping[Place, int],
    ends: Mapping[Place, int | str],
    readers: Mapping[Place, Member],
) -> Iterator[LagRow]:
    for place in places:
        end = ends.get(place)
        yield LagRow(
            *place, offsets.get(place), end if isinstance(end, int) else None, readers.get(place)
        )


async def delete(cluster: ClassicCluster, name: str) -> None:
    """Delete a group and its offsets, for good.

    Raises:
      Failed: the group has members, or does not exist.
      ClassicError: the cluster does not answer.
    """
    answer: DeleteGroupsResponse = await cluster.call_broker(
        await coordinator_of(cluster, name), "DeleteGroups", DeleteGroupsRequest([name])
    )
    code = answer.results[0].error_code
    if code == ErrorCode.NON_EMPTY_GROUP:
        raise Failed(f"group {name} has members: stop them first")
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise Failed(f"there is no group {name}; see `tidegate group list`")
    if code:
        raise Failed(refusal(f"group {name}", code))
