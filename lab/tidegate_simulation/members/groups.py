"""Clients of consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import find_coordinator, offset_commit, offset_fetch

from ..checks.history import Event
from ..clients.client import Client, Disconnected
from ..clients.workload import Key, Workload
from ..plans.expiry_plan import RETENTION_SECONDS

_OF_MEMBERS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


async def find_node(client: Client, group_id: str) -> int:
    """Return the node id of a group's coordinator.

    Raises:
      Disconnected: no gateway knows the coordinator now.
    """
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=[group_id])
    response = await client.call("FindCoordinator", find_coordinator, 4, request)
    answer = response.coordinators[0]
    if answer.error_code != ErrorCode.NONE:
        raise Disconnected
    return int(answer.node_id)


class GroupClient:
    """Talks to the coordinator of one group, and looks for it again after a failure."""

    def __init__(self, client: Client, group_id: str) -> None:
        self.client = client
        self.group_id = group_id
        self._node_id: int | None = None

    async def call(
        self, name: str, messages: Any, version: int, request: Any, timeout_seconds: float = 20.0
    ) -> Any:
        """See Client.call."""
        if self._node_id is None:
            self._node_id = await self.choose_node()
        try:
            return await self.client.call(
                name,
                messages,
                version,
                request,
                node_id=self._node_id,
                timeout_seconds=timeout_seconds,
            )
        except Disconnected:
            self._node_id = None
            raise

    async def choose_node(self) -> int:
        """Return the node id to talk to."""
        return await find_node(self.client, self.group_id)

    def forget(self) -> None:
        """Forget the coordinator: another gateway coordinates the group."""
        self._node_id = None

    async def commit(
        self,
        key: Key,
        offset: int,
        *,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> ErrorCode:
        """Commit one offset, and record the commit in the history.

        Raises:
          Disconnected: the outcome is unknown.
        """
        history = self.client.world.history
        value: dict[str, Any] = {"group": self.group_id, "key": key.number, "offset": offset}
        if generation >= 0:
            value |= {"generation": generation, "member": member_id}
        invoke = history.invoke(self.client.name, "commit", value)
        request = offset_commit.OffsetCommitRequest(
            self.group_id, generation, member_id, instance_id, topics=[_committed(key, offset)]
        )
        try:
            response = await self.call("OffsetCommit", offset_commit, 8, request)
        except Disconnected:
            history.info(invoke)
            raise
        return self._settle(invoke, response.topics[0])

    async def commit_all(self, keys: Sequence[Key], offset: int) -> None:
        """Commit one offset for each of several keys in one request; the history shows single
        commits.

        Raises:
          Disconnected: the outcome is unknown.
        """
        history = self.client.world.history
        invokes = [
            history.invoke(
                f"{self.client.name} {key.number}",
                "commit",
                {"group": self.group_id, "key": key.number, "offset": offset},
            )
            for key in keys
        ]
        topics = [_committed(key, offset) for key in keys]
        request = offset_commit.OffsetCommitRequest(self.group_id, topics=topics)
        try:
            response = await self.call("OffsetCommit", offset_commit, 8, request)
        except Disconnected:
            for invoke in invokes:
                history.info(invoke)
            raise
        for invoke, topic in zip(invokes, response.topics, strict=True):
            self._settle(invoke, topic)

    def _settle(self, invoke: Event, topic: Any) -> ErrorCode:
        history = self.client.world.history
        code = ErrorCode(topic.partitions[0].error_code)
        if code == ErrorCode.NONE:
            history.ok(invoke)
        elif code in _OF_MEMBERS:
            history.fail(invoke, error=code.name)
        else:
            history.info(invoke, error=code.name)
            self.forget()
        return code

    async def fetch(self, key: Key) -> int | None:
        """Return a committed offset (None: there is none), and record the read in the history.

        Raises:
          Disconnected: no answer.
        """
        history = self.client.world.history
        value = {"group": self.group_id, "key": key.number}
        invoke = history.invoke(self.client.name, "fetched", value)
        topic = offset_fetch.OffsetFetchRequestTopics(key.topic, partition_indexes=[key.partition])
        asked = offset_fetch.OffsetFetchRequestGroup(self.group_id, topics=[topic])
        request = offset_fetch.OffsetFetchRequest(groups=[asked])
        try:
            response = await self.call("OffsetFetch", offset_fetch, 8, request)
            group = response.groups[0]
            if group.error_code or group.topics[0].partitions[0].error_code:
                self.forget()
                raise Disconnected
        except Disconnected:
            history.info(invoke)
            raise
        found = int(group.topics[0].partitions[0].committed_offset)
        offset = found if found >= 0 else None
        history.ok(invoke, offset=offset)
        return offset


def _committed(key: Key, offset: int) -> Any:
    part = offset_commit.OffsetCommitRequestPartition(key.partition, offset)
    return offset_commit.OffsetCommitRequestTopic(key.topic, partitions=[part])


class Committer:
    """Commits offsets for a group without members, and reads them back."""

    def __init__(self, workload: Workload, name: str, group_id: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self.group = GroupClient(self.client, group_id)
        self._next = 0

    async def run(self) -> None:
        """Commit and fetch until no operation is left."""
        while self._workload.take():
            try:
                await self.commit_or_fetch()
            except Disconnected:
                await self.client.pause(1.0)
            await self.client.pause(4.0)
        self.client.close()

    async def commit_or_fetch(self) -> None:
        """Commit one key or read it back."""
        rng = self.client.rng
        key = rng.choice(self._workload.keys)
        if rng.random() < 0.5:
            self._next += rng.randint(1, 1000)
            await self.group.commit(key, self._next)
        else:
            await self.group.fetch(key)


class CommitterOfAll(Committer):
    """Commits offsets of all keys at once."""

    async def commit_or_fetch(self) -> None:
        """Commit all keys and read one back."""
        self._next += 1
        await self.group.commit_all(self._workload.keys, self._next)
        await self.group.fetch(self.client.rng.choice(self._workload.keys))


class Pauser(Committer):
    """Commits, waits for longer than the gateways keep offsets, and reads the offset back."""

    async def run(self) -> None:
        """Commit and read back until no operation is left."""
        while self._workload.operations_left > 0:
            key = self.client.rng.choice(self._workload.keys)
            self._next += 1
            try:
                await self.group.commit(key, self._next)
                await trio.sleep(RETENTION_SECONDS * 1.3)
                await self.group.fetch(key)
            except Disconnected:
                await self.client.pause(1.0)
        self.client.close()
