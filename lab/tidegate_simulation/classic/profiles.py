"""Releases of Kafka, by the API versions and features that they announce.  Pure.

A broker answers the APIs that the model serves, in the versions that both the release and our
codecs know.  It announces what the release announces, so that clients choose as they would there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate_protocol.apis import APIS, ApiKey

Versions = tuple[int, int]
TRANSACTION_VERSION: Final = "transaction.version"


@dataclass(frozen=True, slots=True)
class Profile:
    """A release.

    versions: first and last version of each API that it announces.
    verifies: leaders ask the coordinator whether a partition takes part in a transaction; before
    Kafka 3.6 a batch of an ended transaction opened it again (KIP-890).
    """

    release: str
    versions: Mapping[int, Versions]
    features: Mapping[str, Versions] = field(default_factory=dict[str, Versions])
    finalized: Mapping[str, int] = field(default_factory=dict[str, int])
    verifies: bool = True

    @property
    def transaction_version(self) -> int:
        """The finalized level of transaction.version; 0 where Kafka does not have it."""
        return self.finalized.get(TRANSACTION_VERSION, 0)

    def at_transaction_version(self, level: int) -> Profile:
        """Return the release with another finalized transaction.version."""
        return replace(self, finalized={**self.finalized, TRANSACTION_VERSION: level})

    def speaks(self, api_key: int, version: int) -> bool:
        """Return whether the broker reads this version of an API."""
        first, last = self.versions.get(api_key, (0, -1))
        facts = APIS.get(api_key)
        return facts is not None and max(first, facts.min_version) <= version <= last

    def without(self, apis: Collection[int]) -> Profile:
        """Return the release with some APIs turned off."""
        kept = {key: each for key, each in self.versions.items() if key not in apis}
        return replace(self, versions=kept)


SERVED: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DELETE_GROUPS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
)
MEMBERS_APIS: Final = (
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
)
"""The APIs of groups with members, and of the tools that manage groups."""
TRANSACTION_APIS: Final = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
)
"""The APIs of transactional producers, and of the tools that show transactions."""

KAFKA_4_3: Final = Profile(
    "4.3.1",
    {key: (APIS[key].announced_min_version, APIS[key].max_version) for key in SERVED},
    features={
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 30),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        TRANSACTION_VERSION: (0, 2),
    },
    finalized={
        "group.version": 1,
        "metadata.version": 30,
        "share.version": 1,
        "streams.version": 1,
        TRANSACTION_VERSION: 2,
    },
)
KAFKA_4_3_V1: Final = KAFKA_4_3.at_transaction_version(1)
KAFKA_3_9: Final = Profile(
    "3.9",
    {
        ApiKey.PRODUCE: (0, 11),
        ApiKey.FETCH: (0, 17),
        ApiKey.LIST_OFFSETS: (0, 9),
        ApiKey.METADATA: (0, 12),
        ApiKey.OFFSET_COMMIT: (0, 9),
        ApiKey.OFFSET_FETCH: (0, 9),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.JOIN_GROUP: (0, 9),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 5),
        ApiKey.SYNC_GROUP: (0, 5),
        ApiKey.DESCRIBE_GROUPS: (0, 5),
        ApiKey.LIST_GROUPS: (0, 5),
        ApiKey.API_VERSIONS: (0, 4),
        ApiKey.INIT_PRODUCER_ID: (0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 4),
        ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
        ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
        ApiKey.END_TXN: (0, 4),
        ApiKey.TXN_OFFSET_COMMIT: (0, 4),
        ApiKey.DESCRIBE_ACLS: (0, 3),
        ApiKey.DESCRIBE_CONFIGS: (0, 4),
        ApiKey.ALTER_CONFIGS: (0, 2),
        ApiKey.DELETE_GROUPS: (0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
        ApiKey.OFFSET_DELETE: (0, 0),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
        ApiKey.DESCRIBE_CLUSTER: (0, 1),
        ApiKey.DESCRIBE_PRODUCERS: (0, 0),
        ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
        ApiKey.LIST_TRANSACTIONS: (0, 1),
    },
)
KAFKA_2_1: Final = Profile(
    "2.1",
    {
        ApiKey.PRODUCE: (0, 7),
        ApiKey.FETCH: (0, 10),
        ApiKey.LIST_OFFSETS: (0, 4),
        ApiKey.METADATA: (0, 7),
        ApiKey.OFFSET_COMMIT: (0, 6),
        ApiKey.OFFSET_FETCH: (0, 5),
        ApiKey.FIND_COORDINATOR: (0, 2),
        ApiKey.JOIN_GROUP: (0, 3),
        ApiKey.HEARTBEAT: (0, 2),
        ApiKey.LEAVE_GROUP: (0, 2),
        ApiKey.SYNC_GROUP: (0, 2),
        ApiKey.DESCRIBE_GROUPS: (0, 2),
        ApiKey.LIST_GROUPS: (0, 2),
        ApiKey.API_VERSIONS: (0, 2),
        ApiKey.INIT_PRODUCER_ID: (0, 1),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 2),
        ApiKey.ADD_PARTITIONS_TO_TXN: (0, 1),
        ApiKey.ADD_OFFSETS_TO_TXN: (0, 1),
        ApiKey.END_TXN: (0, 1),
        ApiKey.TXN_OFFSET_COMMIT: (0, 2),
        ApiKey.DESCRIBE_ACLS: (0, 1),
        ApiKey.DESCRIBE_CONFIGS: (0, 2),
        ApiKey.ALTER_CONFIGS: (0, 1),
        ApiKey.DELETE_GROUPS: (0, 1),
    },
    verifies=False,
)
PROFILES: Final = {each.release: each for each in (KAFKA_4_3, KAFKA_3_9, KAFKA_2_1)}
