"""One member of a consumer group of the classic protocol, for one topic.

The protocol is the eager one: a member gives up all its partitions when it joins again.  The member
commits before that, so that the partition's next reader begins after the printed records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import trio

from tidegate_protocol.consumer_protocol import decode_assignment, encode_subscription
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidegate_protocol.messages.heartbeat import HeartbeatRequest
from tidegate_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidegate_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidegate_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidegate_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from ...groups.values import CONSUMER_PROTOCOL_TYPE
from ..cluster import ClassicCluster
from ..errors import ClassicError, Kind, Refused
from ..failed import Failed
from .group_offsets import coordinator_of, offset_fetch, offsets_in
from .range_assignor import RANGE, assigned, wishes_of

SESSION_SECONDS: Final = 45.0
REBALANCE_SECONDS: Final = 60.0
JOIN_SECONDS: Final = 300.0
"""A group waits for its slowest member: Kafka's consumers may take that long (their default
max.poll.interval.ms)."""
HEARTBEAT_SECONDS: Final = 3.0
GROWTH_SECONDS: Final = 60.0
"""So often a leader looks for more partitions (metadata.max.age.ms of Kafka's clients)."""
PATIENCE_SECONDS: Final = 30.0
"""For so long after a first failure a member tries to reach its coordinator."""
UNSTABLE_SECONDS: Final = 60.0
"""So long a transaction may be about to change offsets (default transaction.timeout.ms)."""
PAUSE_SECONDS: Final = 0.2
_LINE: Final = "group"
"""Connections of its own: a heartbeat does not wait behind a fetch."""
_NAMES: Final = 9
"""The last version of OffsetCommit with topics by name."""
_MEMBERS_FROM: Final = 3
"""LeaveGroup names several members from here on."""
_CHANGED: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)


class GroupMember:
    """See the module's head.

    changed: set once the group changes, so that the member must join again; and while it joins.
    """

    def __init__(self, cluster: ClassicCluster, group: str, topic: str) -> None:
        self.changed = trio.Event()
        self._cluster = cluster
        self._group = group
        self._topic = topic
        self._member_id: str = ""
        self._generation = -1
        self._coordinator: int | None = None
        # The partition counts by which this leader assigned, by topic; empty if another member
        # leads.
        self._counts: dict[str, int] = {}

    async def join(self) -> list[int]:
        """Wait for the other members; return the partitions that are this member's.

        Raises:
          Failed: the group has members of another kind.
          ClassicError: the cluster refuses, or no broker has answered for PATIENCE_SECONDS.
        """
        self.changed.set()  # heartbeats must not wait for the join
        until: float | None = None
        while True:
            try:
                found = await self._joined()
                if found is not None:
                    self.changed = trio.Event()
                    return found
                until = None
            except ClassicError as error:
                # Waiting for other members does not count as waiting for the coordinator.
                if until is None:
                    until = trio.current_time() + PATIENCE_SECONDS
                await self._pause_after(error, until)

    async def _joined(self) -> list[int] | None:
        """Join and sync; None if the group changed in between."""
        answer = await self._join_group()
        if answer is None:
            return None
        self._generation = answer.generation_id
        assignments: dict[str, bytes] = {}
        self._counts = {}
        if answer.leader == answer.member_id and not answer.skip_assignment:
            wishes = wishes_of(answer.members)
            self._counts = await self._partitions({t for each in wishes for t in each.topics})
            assignments = assigned(wishes, self._counts)
        request = SyncGroupRequest(
            self._group,
            answer.generation_id,
            self._member_id,
            None,
            CONSUMER_PROTOCOL_TYPE,
            answer.protocol_name,
            [SyncGroupRequestAssignment(*each) for each in assignments.items()],
        )
        synced = await self._ask("SyncGroup", request, wait_seconds=REBALANCE_SECONDS)
        if self._has_changed(synced.error_code):
            return None
        try:
            topics_of = decode_assignment(synced.assignment).assigned_partitions
        except RemoteProtocolError as error:
            raise Failed(f"group {self._group}: {error}") from None
        return sorted(index for t in topics_of if t.topic == self._topic for index in t.partitions)

    async def _partitions(self, topics: Collection[str]) -> dict[str, int]:
        known = (await self._cluster.refresh(topics)).topics
        return {name: len(known[name].partitions) if name in known else 0 for name in topics}

    async def _join_group(self) -> JoinGroupResponse | None:
        subscription = encode_subscription(ConsumerProtocolSubscription([self._topic]))
        request = JoinGroupRequest(
            self._group,
            round(SESSION_SECONDS * 1000),
            round(REBALANCE_SECONDS * 1000),
            self._member_id,
            None,
            CONSUMER_PROTOCOL_TYPE,
            [JoinGroupRequestProtocol(RANGE, subscription)],
        )
        answer: JoinGroupResponse = await self._ask("JoinGroup", request, wait_seconds=JOIN_SECONDS)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return None
        if answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise Failed(
                f"the members of group {self._group} share their partitions in another way than"
                f' "{RANGE}", or are no consumers: give another group'
            )
        if self._has_changed(answer.error_code):
            return None
        self._member_id = answer.member_id
        return answer

    async def heartbeats(self) -> None:
        """Tell the coordinator that the member lives; forever.

        Raises:
          ClassicError: the cluster refuses for a reason other than a change of the group.
        """
        heard = trio.current_time()
        while True:
            await trio.sleep(HEARTBEAT_SECONDS)
            if self._generation < 0 or self.changed.is_set():
                heard = trio.current_time()
                continue
            request = HeartbeatRequest(self._group, self._generation, self._member_id)
            try:
                self._has_changed((await self._ask("Heartbeat", request)).error_code)
                heard = trio.current_time()
            except ClassicError as error:
                if error.kind is not Kind.RETRIABLE:
                    raise
                if trio.current_time() - heard > SESSION_SECONDS:
                    self.changed.set()

    async def watch_growth(self) -> None:
        """Join again if a topic has more partitions and this member is the leader, which shares
        them out.

        This runs forever.

        Raises:
          ClassicError: the cluster refuses to say.
        """
        while True:
            await trio.sleep(GROWTH_SECONDS)
            before = self._counts
            try:
                now = await self._partitions(before) if before else {}
            except ClassicError as error:
                if error.kind is not Kind.RETRIABLE:
                    raise
                continue
            if before is self._counts and any(now[name] > before[name] for name in before):
                self.changed.set()

    async def committed(self) -> dict[int, int]:
        """Return the group's offset of each partition that has one.

        Raises:
          ClassicError: as join(); or a transaction is about to change them, for UNSTABLE_SECONDS.
        """
        until = trio.current_time() + UNSTABLE_SECONDS
        request, versions = offset_fetch(self._group)
        while True:
            try:
                answer = await self._ask("OffsetFetch", request, **versions)
                found = offsets_in(answer, self._group)
                return {each.partition: each.offset for each in found if each.topic == self._topic}
            except ClassicError as error:
                self._coordinator = None
                await self._pause_after(error, until)

    async def commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit the next offset of partitions; return False if they are no longer this member's.

        Raises:
          ClassicError: as join(); the outcome may be unknown.
        """
        until = trio.current_time() + PATIENCE_SECONDS
        rows = [OffsetCommitRequestPartition(*each) for each in sorted(offsets.items())]
        topics = [OffsetCommitRequestTopic(self._topic, partitions=rows)]
        request = OffsetCommitRequest(self._group, self._generation, self._member_id, topics=topics)
        while True:
            try:
                answer = await self._ask("OffsetCommit", request, max_version=_NAMES)
                codes = {each.error_code for topic in answer.topics for each in topic.partitions}
                return not any([self._has_changed(each) for each in codes])
            except ClassicError as error:
                await self._pause_after(error, until)

    async def leave(self) -> None:
        """Leave the group, so that others read on at once.  If that fails, they wait a while."""
        if not self._member_id:
            return

        def request(version: int) -> LeaveGroupRequest:
            if version < _MEMBERS_FROM:
                return LeaveGroupRequest(self._group, self._member_id)
            return LeaveGroupRequest(self._group, members=[MemberIdentity(self._member_id)])

        await self._ask("LeaveGroup", request)
        self._member_id, self._generation = "", -1

    async def _ask(self, name: str, request: Any, **options: Any) -> Any:
        """Ask the coordinator once; look for it again after a failure."""
        coordinator = self._coordinator
        if coordinator is None:
            coordinator = await coordinator_of(self._cluster, self._group)
            await self._cluster.refresh([self._topic])
            self._coordinator = coordinator
        try:
            connection = await self._cluster.connection(coordinator, _LINE)
            return await connection.call(name, request, **options)
        except ClassicError:
            self._coordinator = None
            raise

    def _has_changed(self, code: int) -> bool:
        """Return whether a code says that the member must join again.

        Raises:
          Refused: it says something else.
        """
        if not code:
            return False
        if code in _CHANGED:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            self.changed.set()
            return True
        self._coordinator = None  # the coordinator may be another broker now
        raise Refused(f"group {self._group}", code)

    async def _pause_after(self, error: ClassicError, until: float) -> None:
        if error.kind is not Kind.RETRIABLE or trio.current_time() >= until:
            raise error
        await trio.sleep(PAUSE_SECONDS)
