"""A guardian gives rights on a topic to a writer and a reader, and takes them away.

A change that a gateway has acknowledged holds at all gateways a moment later.  So the writer knows
when no gateway may take its records, and when no gateway may refuse them.  A gateway that waits for
the log applies the rights that it knows, for authorizer.max.staleness.ms at most.  A record that it
took commits if the log answers again soon.  A reader is judged by the ACLs of the gateway that
answers it: a gateway that is cut off serves the records that it has, by the rights that it knows.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import trio

from tidegate_gateway.builder import AWAY_SECONDS
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_acls, delete_acls, fetch, produce

from ..plans.security.rights_plan import ADMIN, TOPIC
from .client import Client, Disconnected
from .guarded_admin import ALTER_CONFIGS, GuardedAdmin
from .workload import Workload, batch_bytes, create_topic

WRITER: Final = "guarded writer"
READER: Final = "guarded reader"
_ANONYMOUS: Final = "User:ANONYMOUS"
_MOMENT_SECONDS: Final = AWAY_SECONDS + 1.0
_STALE_SECONDS: Final = 12.0
"""A gateway that does not hear from the log goes by the rights that it knows, for so long at most:
authorizer.max.staleness.ms, and a moment.
"""
_TOPIC_KIND, _LITERAL, _PREFIXED = 2, 3, 4
_READ, _WRITE, _DENY, _ALLOW = 3, 4, 2, 3
_ACL_VERSION: Final = 3
_PRODUCE_VERSION: Final = 9
_FETCH_VERSION: Final = 12
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Standing(Enum):
    """The state of a client's right, as far as the guardian knows."""

    ALLOWED = "allowed"
    CHANGING = "changing"
    DENIED = "denied"


class Ban:
    """The state of one client's right over time."""

    def __init__(self) -> None:
        self._changes: list[tuple[float, Standing]] = [(0.0, Standing.CHANGING)]

    def become(self, standing: Standing) -> None:
        """Note a change."""
        self._changes.append((trio.current_time(), standing))

    def has_been_only(self, standing: Standing, since: float) -> bool:
        """Return whether the right was in this state from a time until now."""
        began = 0
        for at, (time, _) in enumerate(self._changes):
            if time <= since:
                began = at
        return all(each is standing for _, each in self._changes[began:])


class Guardian:
    """Denies and allows, in turns."""

    def __init__(
        self, workload: Workload, name: str, writer: Ban, admin: GuardedAdmin | None
    ) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._bans = {(WRITER, _WRITE): writer, (READER, _READ): Ban()}
        self._admin = admin
        if admin is not None:
            self._bans[ADMIN, ALTER_CONFIGS] = Ban()

    async def run(self) -> None:
        """Change rights until no operation is left; then allow everything."""
        rng = self.client.rng
        for host, operation in self._bans:
            # Once a topic has an ACL, clients may do nothing there without another ACL.
            await self._create(host, operation, _ALLOW, _LITERAL, TOPIC)
        await self._create("*", 8, _ALLOW, _LITERAL, TOPIC)
        for ban in self._bans.values():
            ban.become(Standing.ALLOWED)
        while self._workload.take():
            key = rng.choice(sorted(self._bans))
            await self._deny(*key)
            await self.client.pause(30.0)
            await self._allow(*key)
            await self.client.pause(15.0)
        self.client.close()

    async def _deny(self, host: str, operation: int) -> None:
        ban = self._bans[host, operation]
        ban.become(Standing.CHANGING)
        pattern, name = self.client.rng.choice(((_LITERAL, TOPIC), (_PREFIXED, "guard")))
        if self._admin is not None and host == ADMIN:
            self._admin.hurry()
        await self._create(host, operation, _DENY, pattern, name)
        ban.become(Standing.DENIED)

    async def _allow(self, host: str, operation: int) -> None:
        ban = self._bans[host, operation]
        ban.become(Standing.CHANGING)
        wanted = delete_acls.DeleteAclsFilter(_TOPIC_KIND, None, 1, None, host, operation, _DENY)
        request = delete_acls.DeleteAclsRequest([wanted])
        while True:
            try:
                answer = await self.client.call("DeleteAcls", delete_acls, _ACL_VERSION, request)
                break
            except Disconnected:
                await self.client.pause(1.0)
        self._expect_done("DeleteAcls", answer.filter_results[0].error_code)
        ban.become(Standing.ALLOWED)

    async def _create(
        self, host: str, operation: int, permission: int, pattern: int, name: str
    ) -> None:
        row = create_acls.AclCreation(
            _TOPIC_KIND, name, pattern, _ANONYMOUS, host, operation, permission
        )
        request = create_acls.CreateAclsRequest([row])
        while True:
            try:
                answer = await self.client.call("CreateAcls", create_acls, _ACL_VERSION, request)
                break
            except Disconnected:
                await self.client.pause(1.0)
        self._expect_done("CreateAcls", answer.results[0].error_code)

    def _expect_done(self, name: str, code: int) -> None:
        if code:
            self.client.world.complain("false error", f"{name}: {ErrorCode(code).name}")


class GuardedWriter:
    """Writes, and judges whether gateways were right to take or refuse the records."""

    def __init__(self, workload: Workload, ban: Ban) -> None:
        self.client = Client(workload.world, WRITER)
        self._workload = workload
        self._ban = ban
        self._written = 0

    async def run(self) -> None:
        """Write until no operation is left."""
        await create_topic(self.client, TOPIC, 1)
        while self._workload.take():
            await self._write()
            await self.client.pause(2.0)
            if self.client.rng.random() < 0.3:
                self.client.close()
        self.client.close()

    async def _write(self) -> None:
        self._written += 1
        now_ms = int(self.client.world.wall_clock() * 1000)
        batch = batch_bytes([self._written], now_ms, sequence=-1)
        data = produce.PartitionProduceData(0, batch)
        topics = [produce.TopicProduceData(TOPIC, partition_data=[data])]
        request = produce.ProduceRequest(None, -1, 30_000, topics)
        sent_at, heard = trio.current_time(), self._heard()
        try:
            answer = await self.client.call("Produce", produce, _PRODUCE_VERSION, request)
        except Disconnected:
            await self.client.pause(1.0)
            return
        code = answer.responses[0].partition_responses[0].error_code
        complain = self.client.world.complain
        heard_at = heard.get(self.client.node_id, sent_at)
        since = max(heard_at - _MOMENT_SECONDS, sent_at - _STALE_SECONDS)
        if not code and self._ban.has_been_only(Standing.DENIED, since):
            complain("a denied client wrote", f"record {self._written}")
        if code == _DENIED and self._ban.has_been_only(Standing.ALLOWED, sent_at - _STALE_SECONDS):
            complain("an allowed client was refused", f"record {self._written}")

    def _heard(self) -> dict[int, float]:
        """Return when the log last answered each gateway, which may not know of a later ban."""
        nodes = self.client.world.nodes.items()
        gateways = {node_id: node.gateway for node_id, node in nodes}
        return {
            node_id: gateway.coordinator.log_answered_at
            for node_id, gateway in gateways.items()
            if gateway is not None
        }


class GuardedReader:
    """Reads from the beginning, and judges by the ACLs of the gateway that it asks."""

    def __init__(self, workload: Workload) -> None:
        self.client = Client(workload.world, READER)
        self._workload = workload

    async def run(self) -> None:
        """Read until no operation is left; the writer creates the topic."""
        while self._workload.take():
            await self._read(self.client.rng.choice(sorted(self.client.world.nodes)))
            await self.client.pause(2.0)
        self.client.close()

    async def _read(self, node_id: int) -> None:
        asked = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
        request = fetch.FetchRequest(
            max_wait_ms=self.client.rng.choice((0, 3000)),
            min_bytes=1,
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic=TOPIC, partitions=[asked])],
        )
        before = self._standing_at(node_id)
        try:
            answer = await self.client.call(
                "Fetch", fetch, _FETCH_VERSION, request, node_id=node_id
            )
        except Disconnected:
            await self.client.pause(1.0)
            return
        if before is None or before != self._standing_at(node_id):
            return  # the gateway's ACLs changed meanwhile
        [found] = answer.responses[0].partitions
        complain = self.client.world.complain
        _, is_allowed = before
        if found.records and not is_allowed:
            complain("a denied client read", f"at gateway {node_id}")
        if found.error_code == _DENIED and is_allowed:
            complain("an allowed client was refused", f"a fetch at gateway {node_id}")

    def _standing_at(self, node_id: int) -> tuple[int, bool] | None:
        """Return the version of a gateway's ACLs, and whether they allow the reader to read.

        None: no gateway runs there.
        """
        gateway = self.client.world.nodes[node_id].gateway
        if gateway is None:
            return None
        acls = gateway.coordinator.state.acls
        own = {each.permission for each in acls if each.host == READER and each.operation == _READ}
        return acls.version, _DENY not in own and (_ALLOW in own or not len(acls))
