"""The rows of all APIs: a change of one shows here."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest

from tests.worlds.app_world import started_gateway
from tidegate_gateway.counting.slow_requests import Waits
from tidegate_gateway.feature import AnyRow, Row, by_key, never
from tidegate_gateway.network.large_requests import MAX_ELEMENTS
from tidegate_gateway.security.guard import open_to_all
from tidegate_protocol.apis import APIS, ApiKey

FACTS = """
Produce staged
Fetch open is_brief holds_nothing waits=FOR_RECORDS is_of_members max_elements=15000
ListOffsets
Metadata lists keeps_rows proposes
OffsetCommit is_of_members
OffsetFetch is_of_members lists
FindCoordinator is_brief
JoinGroup is_brief holds_nothing waits=FOR_MEMBERS is_of_members max_elements=10000 act
Heartbeat is_brief
LeaveGroup is_brief is_of_members max_elements=10000 act
SyncGroup is_brief holds_nothing waits=FOR_MEMBERS is_of_members max_elements=20000
DescribeGroups
ListGroups lists
SaslHandshake open
ApiVersions open is_brief
CreateTopics act is_audited proposes
DeleteTopics act is_audited proposes
DeleteRecords act is_audited proposes
InitProducerId is_brief is_step
OffsetForLeaderEpoch
AddPartitionsToTxn is_brief is_step max_elements=33000
AddOffsetsToTxn is_brief is_step
EndTxn is_brief is_step
WriteTxnMarkers max_elements=10000 is_audited is_exempt
TxnOffsetCommit is_brief is_step is_of_members max_elements=20000
DescribeAcls lists
CreateAcls act is_audited proposes
DeleteAcls act is_audited proposes
DescribeConfigs
AlterConfigs act is_audited proposes
AlterReplicaLogDirs
DescribeLogDirs lists
SaslAuthenticate open
CreatePartitions act is_audited proposes
CreateDelegationToken is_audited proposes
RenewDelegationToken open is_audited
ExpireDelegationToken open is_audited
DescribeDelegationToken open
DeleteGroups max_elements=10000 act is_audited
ElectLeaders lists
IncrementalAlterConfigs act is_audited proposes
AlterPartitionReassignments
ListPartitionReassignments
OffsetDelete act is_audited
DescribeClientQuotas lists
AlterClientQuotas act is_audited proposes
DescribeUserScramCredentials lists
AlterUserScramCredentials act is_audited proposes
DescribeQuorum
UpdateFeatures max_elements=1000 act is_audited proposes
DescribeCluster
DescribeProducers
DescribeTransactions
ListTransactions lists
GetTelemetrySubscriptions open
PushTelemetry open
ListConfigResources lists
DescribeTopicPartitions
"""


def facts_of(row: AnyRow) -> str:
    if not isinstance(row, Row):
        return f"{APIS[row.key].name} staged"
    words = [APIS[row.key].name, *(["open"] if row.guard is open_to_all else [])]
    for each in fields(Row)[2:]:
        value = getattr(row, each.name)
        if isinstance(value, Waits):
            words += [f"waits={value.name}"] if value is not Waits.NEVER else []
        elif each.name == "max_elements":
            words += [f"max_elements={value}"] if value != MAX_ELEMENTS else []
        elif each.name == "proposes":
            words += ["proposes"] if value is not never else []
        elif value:
            words.append(each.name)
    return " ".join(words)


async def test_the_rows_hold_the_facts_of_their_apis() -> None:
    async with started_gateway() as gateway:
        rows = gateway.rows
    assert sorted(map(facts_of, rows)) == sorted(FACTS.split("\n")[1:-1])


async def test_an_api_is_guarded_by_the_guard_of_its_name() -> None:
    async with started_gateway() as gateway:
        rows = [each for each in gateway.rows if isinstance(each, Row)]
    for row in rows:
        if row.guard is open_to_all:
            continue
        room = type(row.handler).__module__.rpartition(".")[0]
        feature = import_module(f"{room}.feature")
        assert row.guard is getattr(feature, f"guard_{ApiKey(row.key).name.lower()}")


async def test_an_api_has_one_row() -> None:
    async with started_gateway() as gateway:
        twice = [*gateway.rows, gateway.rows[5]]
    with pytest.raises(LookupError, match=f"API key {twice[5].key}"):
        by_key(twice)
