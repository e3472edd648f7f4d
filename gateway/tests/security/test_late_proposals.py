"""A client that loses its right while its request is on its way changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
import pytest
from trio.testing import MockClock

from tests.worlds.app_world import started_gateway
from tests.worlds.cluster.several_gateways import Clock, Running, cluster
from tests.worlds.wire_client import Closed, records_batch
from tidegate_coordination.events.cluster import (
    ConfigsSet,
    Event,
    LogStartsMoved,
    MetadataVersionSet,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, NEWEST
from tidegate_coordination.events.security import (
    AclsChanged,
    ClientQuotasSet,
    DelegationTokenSet,
    ScramCredentialSet,
)
from tidegate_coordination.log.metadata_log import AppendResult, LogEntry, Trimmed
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_gateway.feature import Row, never
from tidegate_gateway.network.call import Peer
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_protocol.apis import APIS
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_client_quotas as acq
from tidegate_protocol.messages import alter_configs as ac
from tidegate_protocol.messages import alter_user_scram_credentials as au
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import create_delegation_token as cd
from tidegate_protocol.messages import create_partitions as cp
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_acls as da
from tidegate_protocol.messages import delete_records as dr
from tidegate_protocol.messages import delete_topics as dt
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_protocol.messages import metadata as me
from tidegate_protocol.messages import update_features as uf

TOPIC: Final = "t"
SETTINGS: Final = {
    "authorizer.class.name": STANDARD,
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
    "delegation.token.secret.key": "key",
}
DENIED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
_ALL, _DENY, _ALLOW, _LITERAL, _PREFIXED = 2, 2, 3, 3, 4
_TOPICS, _CLUSTER, _USERS = 2, 4, 7


Act: TypeAlias = Callable[[], Awaitable[None]]


class OvertakenLog(FaultyLog):
    """A gateway's connection to the log.

    overtake: done once, before the next append.  delay: done once, before the next read.
    """

    overtake: Act | None = None
    delay: Act | None = None

    async def append(self, position: int, payload: bytes) -> AppendResult:
        """Append, after `overtake` is done."""
        if self.overtake is not None:
            act, self.overtake = self.overtake, None
            await act()
        return await super().append(position, payload)

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        """Read, after `delay` is done."""
        if self.delay is not None:
            act, self.delay = self.delay, None
            await act()
        return await super().read(from_position, max_bytes)


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and the event that it causes.  appends: False if it has nothing to change."""

    api: str
    version: int
    request: Any
    event: type[Event]
    appends: bool = True


def _denials() -> ca.CreateAclsRequest:
    rows = [
        ca.AclCreation(_TOPICS, "*", _LITERAL, "User:ANONYMOUS", "*", _ALL, _DENY),
        ca.AclCreation(_CLUSTER, "kafka-cluster", _LITERAL, "User:ANONYMOUS", "*", _ALL, _DENY),
        ca.AclCreation(_USERS, "User:me", _LITERAL, "User:ANONYMOUS", "*", _ALL, _DENY),
    ]
    return ca.CreateAclsRequest(rows)


def _others() -> ca.CreateAclsRequest:
    row = ca.AclCreation(_TOPICS, "other", _PREFIXED, "User:other", "*", _ALL, _ALLOW)
    return ca.CreateAclsRequest([row])


NEW: Final = ct.CreatableTopic("new", 1, -1, [], [])
ROW: Final = ca.AclCreation(_TOPICS, "mine", _LITERAL, "User:me", "*", _ALL, _ALLOW)
FILTER: Final = da.DeleteAclsFilter(_TOPICS, "there", _LITERAL, None, None, _ALL, _ALLOW)
USER: Final = au.ScramCredentialUpsertion("me", 1, 4096, b"salt" * 8, b"s" * 32)
QUOTA: Final = acq.AlterClientQuotasRequestEntryData(
    [acq.AlterClientQuotasRequestEntityData("user", "me")],
    [acq.OpData("producer_byte_rate", 1e6, False)],
)
CASES: Final = [
    Case(
        "Metadata",
        9,
        me.MetadataRequest([me.MetadataRequestTopic(name="new")], allow_auto_topic_creation=True),
        TopicCreated,
    ),
    Case("CreateTopics", 7, ct.CreateTopicsRequest([NEW], 9_000, False), TopicCreated),
    Case(
        "DeleteTopics",
        6,
        dt.DeleteTopicsRequest([dt.DeleteTopicState(TOPIC)], [], 9_000),
        TopicDeleted,
    ),
    Case(
        "CreatePartitions",
        3,
        cp.CreatePartitionsRequest([cp.CreatePartitionsTopic(TOPIC, 9, None)], 9_000, False),
        PartitionsAdded,
    ),
    Case(
        "DeleteRecords",
        2,
        dr.DeleteRecordsRequest(
            [dr.DeleteRecordsTopic(TOPIC, [dr.DeleteRecordsPartition(0, -1)])], 9_000
        ),
        LogStartsMoved,
    ),
    Case(
        "AlterConfigs",
        2,
        ac.AlterConfigsRequest(
            [ac.AlterConfigsResource(2, TOPIC, [ac.AlterableConfig("retention.ms", "5")])], False
        ),
        ConfigsSet,
    ),
    Case(
        "IncrementalAlterConfigs",
        1,
        ia.IncrementalAlterConfigsRequest(
            [ia.AlterConfigsResource(2, TOPIC, [ia.AlterableConfig("retention.ms", 0, "5")])],
            False,
        ),
        ConfigsSet,
    ),
    Case("CreateAcls", 3, ca.CreateAclsRequest([ROW]), AclsChanged),
    Case("DeleteAcls", 3, da.DeleteAclsRequest([FILTER]), AclsChanged),
    Case("AlterClientQuotas", 1, acq.AlterClientQuotasRequest([QUOTA], False), ClientQuotasSet),
    Case(
        "AlterUserScramCredentials",
        0,
        au.AlterUserScramCredentialsRequest([], [USER]),
        ScramCredentialSet,
    ),
    Case(
        "UpdateFeatures",
        1,
        uf.UpdateFeaturesRequest(9_000, [uf.FeatureUpdateKey(FEATURE_NAME, NEWEST)]),
        MetadataVersionSet,
        appends=False,
    ),
    Case(
        "CreateDelegationToken",
        3,
        cd.CreateDelegationTokenRequest("User", "me", [], -1),
        DelegationTokenSet,
    ),
]

OF_ADMINS: Final = tuple({each.event for each in CASES})


@pytest.fixture(autouse=True)
def _tokens_without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "may_have_tokens", True)


class Scene:
    """Two gateways.  A request at the first one overtakes the second one's call of the log."""

    def __init__(self, first: Running, second: Running, late: OvertakenLog) -> None:
        self._first = first
        self._second = second
        self._late = late

    async def overtaken(self, case: Case, request: Any) -> tuple[Any, list[Event]]:
        """Make a request at the second gateway, while the first changes ACLs.

        Returns the answer (None for a closed connection) and the events of both requests.
        """
        start = self._first.gateway.coordinator.state.position + 1

        async def change() -> None:
            answer = await self._first.world.connect().call("CreateAcls", 3, request)
            assert not any(each.error_code for each in answer.results)

        if case.appends:
            self._late.overtake = change
        else:
            self._late.delay = change
        try:
            answer = await self.ask_again(case)
        except Closed:
            answer = None
        assert self._late.overtake is self._late.delay is None
        return answer, [each async for each in _events(self._late, start)]

    async def ask_again(self, case: Case) -> Any:
        """Make a request at the second gateway, on a new connection."""
        return await self._second.world.connect().call(case.api, case.version, case.request)


async def _events(log: FaultyLog, start: int) -> AsyncIterator[Event]:
    entries = await log.read(start, 1 << 20)
    assert isinstance(entries, list)
    for entry in entries:
        for event in decode_entry(entry.payload, entry.position).events:
            yield event


def codes(answer: Any) -> Iterator[int]:
    """Yield the error codes anywhere in an answer."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name == "error_code" and value:
                yield value
            yield from codes(value)
    elif isinstance(answer, list):
        for each in answer:
            yield from codes(each)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with cluster(SETTINGS) as found:
        first = await found.start(1, Clock())
        await first.world.create_topic(TOPIC, 1)
        await first.world.connect().produce(TOPIC, 0, records_batch(b"x"))
        there = ca.AclCreation(_TOPICS, "there", _LITERAL, "User:me", "*", _ALL, _ALLOW)
        await first.world.connect().call("CreateAcls", 3, ca.CreateAclsRequest([there]))
        late = OvertakenLog(found.log, LogFaults(), Random(1))
        second = await found.start(2, Clock(), log=late)
        yield Scene(first, second, late)


async def test_each_request_that_proposes_has_a_case() -> None:
    async with started_gateway() as gateway:
        rows = [each for each in gateway.rows if isinstance(each, Row)]
    proposing = [each.key for each in rows if each.proposes is not never]
    assert {each.api for each in CASES} == {APIS[key].name for key in proposing}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.api)
async def test_a_right_that_is_lost_on_the_way(case: Case, autojump_clock: MockClock) -> None:
    async with scene() as found:
        answer, events = await found.overtaken(case, _denials())
        assert answer is None  # the gateway has closed the connection
        assert [type(each) for each in events if isinstance(each, OF_ADMINS)] == [AclsChanged]
        again = await found.ask_again(case)
        assert set(codes(msgspec.to_builtins(again))) <= DENIED
        assert set(codes(msgspec.to_builtins(again)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.api)
async def test_a_right_of_others_that_changes_on_the_way(
    case: Case, autojump_clock: MockClock
) -> None:
    async with scene() as found:
        answer, events = await found.overtaken(case, _others())
        changes = [type(each) for each in events if isinstance(each, OF_ADMINS)]
        assert changes == [AclsChanged, case.event][: 1 + case.appends]
        assert not set(codes(msgspec.to_builtins(answer)))
