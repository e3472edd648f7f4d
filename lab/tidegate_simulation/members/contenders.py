"""Clients that contend for groups: at a wrong gateway, during deletions, and without membership.

A claim on a group moves when its holder dies, leaves or is cut off.  Meanwhile no gateway may
answer for a group that another gateway serves.
"""

from __future__ import annotations

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_groups

from ..clients.client import Client, Disconnected
from ..clients.readers import Reader
from ..clients.workload import Workload
from .groups import Committer, GroupClient


class _AnyNode(GroupClient):
    """Sends requests to any gateway without looking for the coordinator."""

    async def choose_node(self) -> int:
        """Return any node id, as a client with stale knowledge does."""
        return self.client.rng.choice(sorted(self.client.world.nodes))


class Contender(Committer):
    """Commits and reads back at any gateway, and stays at one that does not refuse."""

    def __init__(self, workload: Workload, name: str, group_id: str) -> None:
        super().__init__(workload, name, group_id)
        self.group = _AnyNode(self.client, group_id)


class GroupDeleter:
    """Deletes a group, again and again."""

    def __init__(self, workload: Workload, name: str, group_id: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._history = workload.world.history
        self._group = GroupClient(self.client, group_id)

    async def run(self) -> None:
        """Delete until no operation is left."""
        while self._workload.take():
            await self._delete()
            await self.client.pause(4.0)
        self.client.close()

    async def _delete(self) -> None:
        group_id = self._group.group_id
        self.client.world.groups_watch.asks(group_id)
        invoke = self._history.invoke(self.client.name, "forget", {"group": group_id})
        request = delete_groups.DeleteGroupsRequest([group_id])
        try:
            response = await self._group.call("DeleteGroups", delete_groups, 2, request)
        except Disconnected:
            self._history.info(invoke)
            return
        code = ErrorCode(response.results[0].error_code)
        if code == ErrorCode.NONE:
            self._history.ok(invoke)
        elif code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP):
            self._history.fail(invoke, error=code.name)
        else:
            self._history.info(invoke, error=code.name)
            self._group.forget()


class Resumer:
    """A consumer without a membership: after each start it resumes at its committed offset."""

    def __init__(self, workload: Workload, name: str, group_id: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._group = GroupClient(self.client, group_id)
        self._reader = Reader(workload, f"{name} reader")

    async def run(self) -> None:
        """Read and commit until no operation is left."""
        while self._workload.operations_left > 0:
            try:
                await self._live()
            except Disconnected:
                await self.client.pause(1.0)
            self.client.close()
        self._reader.client.close()

    async def _live(self) -> None:
        rng = self.client.rng
        keys = sorted(rng.sample(self._workload.keys, min(2, len(self._workload.keys))))
        self._reader.assign(
            {key: await self._group.fetch(key) or self._workload.first_offset for key in keys}
        )
        for _ in range(rng.randint(1, 8)):
            if not self._workload.take():
                return
            await self._reader.poll()
            for key, position in self._reader.positions.items():
                await self._group.commit(key, position)
            await self.client.pause(2.0)
