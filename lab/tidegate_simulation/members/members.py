"""Members of a consumer group: they join, read their assigned keys, commit, and leave or die.

A static member (KIP-345) keeps its instance id across its restarts.  Two members that share an
instance id fence each other.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tidegate_protocol.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import heartbeat, join_group, leave_group, sync_group
from tidegate_protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from tidegate_protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

from ..checks.history import Event
from ..clients.client import Client, Disconnected, ProtocolBroken
from ..clients.readers import Reader
from ..clients.workload import Key, Workload
from .groups import GroupClient

SESSION_MS = 10_000
_PROTOCOL = "roundrobin"


class Rejoin(Exception):
    """The membership has ended, or the group rebalances.  Join again."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The used fields of JoinGroup's answer."""

    generation: int
    is_leader: bool
    members: tuple[str, ...]


class GroupMember:
    """One member of a consumer group."""

    def __init__(
        self, workload: Workload, name: str, group_id: str, *, instance_id: str | None = None
    ) -> None:
        self.client = Client(workload.world, name)
        self.rng = self.client.rng
        self._workload = workload
        self._history = workload.world.history
        self._group = GroupClient(self.client, group_id)
        self._reader = Reader(workload, f"{name} reader")
        self._member_id = ""
        self._instance_id = instance_id
        self._generation = -1

    async def run(self) -> None:
        """Take part until no operation is left."""
        while self._workload.operations_left > 0:
            try:
                await self._take_part()
            except Disconnected:
                await self.client.pause(1.0)
            except Rejoin:
                await self.client.pause(0.2 if self._member_id else 3.0)
        self.client.close()
        self._reader.client.close()

    def subscribed(self) -> list[Key]:
        """Return the keys that the members share."""
        return self._workload.keys

    async def _take_part(self) -> None:
        """Take part in one generation."""
        joined, keys = await self.join()
        positions = {
            key: await self._group.fetch(key) or self._workload.first_offset for key in keys
        }
        self._reader.assign(positions)
        former, self._generation = self._generation, joined.generation
        if keys and self.rng.random() < 0.3:
            await self._haunt(keys[0], former)
        await self._read(joined.generation)

    async def join(self) -> tuple[Joined, list[Key]]:
        """Join, and return the keys that the leader assigned.

        Raises:
          Disconnected, Rejoin
        """
        began = self._history.invoke(self.client.name, "joined", {"group": self._group.group_id})
        before = self._member_id
        try:
            joined = await self._join()
            keys = await self._sync(joined)
        except Disconnected:
            self._history.info(began)
            raise
        except Rejoin as refused:
            self._history.info(began, error=str(refused), member=before)
            raise
        self._joined(began, joined, keys)
        return joined, keys

    def _joined(self, began: Event, joined: Joined, keys: list[Key]) -> None:
        self._history.ok(
            began,
            generation=joined.generation,
            member=self._member_id,
            keys=[key.number for key in keys],
            instance=self._instance_id,
            session_ms=SESSION_MS,
        )

    async def _haunt(self, key: Key, generation: int) -> None:
        """Commit late with a former generation; the gateway must refuse the commit."""
        if 0 <= generation < self._generation:
            await self._group.commit(
                key,
                self.rng.randint(0, 9),
                generation=generation,
                member_id=self._member_id,
                instance_id=self._instance_id,
            )

    async def _read(self, generation: int) -> None:
        """Read and commit, until the member leaves, dies, or has to join again."""
        for _ in range(self.rng.randint(2, 12)):
            if not self._workload.take():
                break
            await self._reader.poll()
            with suppress(Disconnected):  # the membership outlives a connection, and a coordinator
                await self._report(generation)
            await self.client.pause(2.0)
        match self.rng.randrange(3):
            case 0:
                await self.leave()
            case 1:
                self._member_id = ""  # dies; its session times out
                self.client.close()
            case _:
                pass

    async def _report(self, generation: int) -> None:
        """Commit, and send a heartbeat.

        Raises:
          Disconnected, Rejoin
        """
        for key, position in self._reader.positions.items():
            if position:
                code = await self._group.commit(
                    key,
                    position,
                    generation=generation,
                    member_id=self._member_id,
                    instance_id=self._instance_id,
                )
                self._heed(code)
        await self._heartbeat(generation)

    # -- requests ---------------------------------------------------------------------------------

    async def _join(self) -> Joined:
        metadata = encode_subscription(
            ConsumerProtocolSubscription(sorted({key.topic for key in self.subscribed()})), 0
        )
        protocols = [join_group.JoinGroupRequestProtocol(_PROTOCOL, metadata)]
        while True:
            request = join_group.JoinGroupRequest(
                self._group.group_id,
                SESSION_MS,
                SESSION_MS,
                self._member_id,
                self._instance_id,
                protocol_type="consumer",
                protocols=protocols,
            )
            answer = await self._call("JoinGroup", join_group, 7, request)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                continue
            self._heed(ErrorCode(answer.error_code))
            self._member_id = answer.member_id
            members = tuple(each.member_id for each in answer.members)
            return Joined(answer.generation_id, answer.leader == answer.member_id, members)

    async def _sync(self, joined: Joined) -> list[Key]:
        request = sync_group.SyncGroupRequest(
            self._group.group_id,
            joined.generation,
            self._member_id,
            self._instance_id,
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=self._deal(joined.members) if joined.is_leader else [],
        )
        answer = await self._call("SyncGroup", sync_group, 5, request)
        self._heed(ErrorCode(answer.error_code))
        if not answer.assignment:
            return []
        dealt = decode_assignment(answer.assignment)
        known = {(key.topic, key.partition): key for key in self.subscribed()}
        places = [(each.topic, i) for each in dealt.assigned_partitions for i in each.partitions]
        if strangers := [each for each in places if each not in known]:
            raise ProtocolBroken(f"{self.client.name} is assigned {strangers}")
        return sorted(known[each] for each in places)

    def _deal(self, members: tuple[str, ...]) -> list[sync_group.SyncGroupRequestAssignment]:
        """Assign each key to one member in turn."""
        dealt: list[sync_group.SyncGroupRequestAssignment] = []
        for place, member_id in enumerate(members):
            parts = [
                TopicPartition(key.topic, [key.partition])
                for key in self.subscribed()
                if key.number % len(members) == place
            ]
            assignment = encode_assignment(ConsumerProtocolAssignment(parts), 0)
            dealt.append(sync_group.SyncGroupRequestAssignment(member_id, assignment))
        return dealt

    async def _heartbeat(self, generation: int) -> None:
        value = {
            "group": self._group.group_id,
            "member": self._member_id,
            "generation": generation,
        }
        invoke = self._history.invoke(self.client.name, "heartbeat", value)
        request = heartbeat.HeartbeatRequest(
            self._group.group_id, generation, self._member_id, self._instance_id
        )
        try:
            answer = await self._call("Heartbeat", heartbeat, 4, request)
        except Disconnected:
            self._history.info(invoke)
            raise
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._history.ok(invoke)
        else:
            self._history.fail(invoke, error=code.name)
        self._heed(code)

    async def leave(self) -> None:
        """Leave the group.

        Raises:
          Disconnected: the outcome is unknown.
        """
        who = leave_group.MemberIdentity(self._member_id, self._instance_id)
        value = {"group": self._group.group_id, "member": self._member_id}
        self._history.note(self.client.name, "ok", "left", value)
        self._member_id = ""
        request = leave_group.LeaveGroupRequest(self._group.group_id, members=[who])
        await self._call("LeaveGroup", leave_group, 4, request)

    async def _call(self, name: str, messages: Any, version: int, request: Any) -> Any:
        return await self._group.call(name, messages, version, request, 30.0)

    def _heed(self, code: ErrorCode) -> None:
        """React to an error as a client does.

        Raises:
          Rejoin: the error ends or changes the membership.
          Disconnected: another gateway has to be asked.
        """
        match code:
            case ErrorCode.NONE:
                return
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_INSTANCE_ID:
                self._member_id = ""
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.ILLEGAL_GENERATION:
                pass
            case (
                ErrorCode.NOT_COORDINATOR
                | ErrorCode.COORDINATOR_NOT_AVAILABLE
                | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                | ErrorCode.REQUEST_TIMED_OUT
            ):
                self._group.forget()
                raise Disconnected
            case _:
                raise ProtocolBroken(f"{self.client.name} got {code.name}")
        raise Rejoin(code.name)
