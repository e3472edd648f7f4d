"""Clients of groups that the source coordinates, and the operator who moves these groups here."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.migration.units.group_move import GroupMove
from tidegate_protocol.error_codes import ErrorCode

from ..clients.client import Client, Disconnected
from ..clients.readers import Reader
from ..clients.workload import Key, Workload
from ..members.groups import GroupClient
from ..members.members import GroupMember
from ..world.node import Node
from .source import LINK, TOPICS, UNIT_TOPIC, Source

COMMITTED: Final = "remote-committed"
MEMBERS: Final = "remote-members"
NAMES: Final = ("remote-*",)
_MOVE_SECONDS: Final = 60.0


def keys_of(workload: Workload, source: Source) -> list[Key]:
    """Return the partitions of a mirrored topic, as all clients of groups number them."""
    topic_id = source.cluster.topics[UNIT_TOPIC].topic_id
    if not source.keys:
        source.keys[:] = workload.mirrored_keys(UNIT_TOPIC, topic_id, range(TOPICS[UNIT_TOPIC]))
    return source.keys


class _Positions(Reader):
    """A reader that reads nothing, and takes any offsets of the source as its positions."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        super().__init__(workload, name)
        self._source = source

    def assign(self, positions: dict[Key, int]) -> None:
        """Begin at these offsets."""
        self.positions = dict(positions)

    async def poll(self) -> None:
        """Read on."""
        await trio.lowlevel.checkpoint()
        for key in self.positions:
            self.positions[key] = any_offset(self.client, self._source, key)


async def await_link(client: Client) -> None:
    """Wait until the gateways have the link and the topic."""
    state = client.world.watch.state
    while LINK not in state.links.by_name or UNIT_TOPIC not in state.topics.by_name:
        await client.pause(1.0)


def any_offset(client: Client, source: Source, key: Key) -> int:
    """Return an offset that the source has."""
    log = source.cluster.partition(key.topic, key.partition).log
    return client.rng.randint(0, log.high_watermark)


class RemoteMember(GroupMember):
    """A member of a group of the source.  It commits offsets, and reads no records."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        super().__init__(workload, name, MEMBERS)
        self._keys = keys_of(workload, source)
        self._reader = _Positions(workload, f"{name} reader", source)

    async def run(self) -> None:
        """Take part once the link exists.  Before, the group would be this cluster's."""
        await await_link(self.client)
        await super().run()

    def subscribed(self) -> list[Key]:
        """See GroupMember."""
        return self._keys

    def _heed(self, code: ErrorCode) -> None:
        """Ask another gateway if this one does not know the topic, and so not the link yet."""
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Disconnected
        super()._heed(code)


class RemoteCommitter:
    """Commits offsets for a group of the source without members, and reads them back."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._keys = keys_of(workload, source)
        self._group = GroupClient(self.client, COMMITTED)
        self._source = source

    async def run(self) -> None:
        """Commit and fetch until no operation is left."""
        rng = self.client.rng
        await await_link(self.client)
        while self._workload.take():
            key = rng.choice(self._keys)
            with suppress(Disconnected):
                if rng.random() < 0.5:
                    await self._group.commit(key, any_offset(self.client, self._source, key))
                else:
                    await self._group.fetch(key)
            await self.client.pause(3.0)
        self.client.close()


class GroupMover:
    """Moves the groups here, from any gateway; a crash of that gateway ends the command."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._world = workload.world
        self._source = source

    async def run(self) -> None:
        """Move until no operation is left."""
        while self._workload.take():
            await self.client.pause(10.0)
            group = self.client.rng.choice((COMMITTED, MEMBERS))
            if self._world.watch.state.link_groups.link_of(group):
                await self._move(group)
        self.client.close()

    async def _move(self, group: str) -> None:
        nodes = [each for each in self._world.nodes.values() if isinstance(each, Node)]
        gateway = self.client.rng.choice(nodes).gateway
        running = gateway.links.running.get(LINK) if gateway is not None else None
        if gateway is None or running is None or running.group_lines is None:
            return
        move = GroupMove(gateway.coordinator, LINK, running.group_lines.cluster)
        with (
            trio.move_on_after(_MOVE_SECONDS),
            suppress(CoordinatorUnavailable, ProposalFailed),
        ):
            moved = await move.move(group)
            self._count(moved.problem, joins_again=moved.joins_again)

    def _count(self, problem: str, *, joins_again: bool) -> None:
        kind = "source.group_kept" if problem else "source.group_moved"
        self._world.strikes.count(kind)
        if joins_again:
            self._world.strikes.count("source.group_joins_again")


def wrong_groups(state: ClusterState) -> list[str]:
    """Return problems of the moves of groups, after all faults are over."""
    return [f"group fence {each} stands" for each in state.link_groups.fences]
