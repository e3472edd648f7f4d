"""Every event that can stand in the metadata log: outcomes, not intents.

An event holds the outcome of a decision, such as assigned offsets.  So the fold decides nothing,
and every version of the code agrees on an event's meaning.  Tags are for ever: a tag is never used
again for another meaning, and fields are only added at the end, with a default.

Every event with a name that people choose has a `tenant`, the owner of the name.  The tenant is
always 0, since no other tenant exists yet (state/trial/ refuses them).  The format need not change
for other tenants, but they need a higher level than this release reads (metadata_versions.py).
TransactionGrew and GroupFenceReached have no `tenant`: their groups are of the tenant of the
transactional id, or of the fence.

Numbers of topics, partitions and objects are dense integers that the fold assigns in log order, so
all replicas agree on them although no event holds them.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from .fields import Count, Since, Tenant, UInt32, Within
from .metadata_versions import FIRST, KEPT_SKIPS, OWN_PRODUCER_IDS, SETTINGS_TOLD


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Base of all events; encoded as a msgpack array that begins with the tag.

    level: the metadata.version that it needs.  A rule checks the level before it decides one.
    """

    level: ClassVar[int] = FIRST


class ClusterCreated(Event, frozen=True, tag=1):
    """The first event of a log.

    cluster_id: 22 characters as Kafka prints UUIDs; timeline: 1, raised by each restore of the log.
    lease_ms: see state/writers/gateways.py; the fold uses it, so it is the same for all gateways.
    first_producer_id: the first of its producer ids; see state/records/producer_ids.py.
    """

    cluster_id: str
    timeline: int
    lease_ms: Count = 30_000
    first_producer_id: Annotated[int, Since(OWN_PRODUCER_IDS)] = 0


class Endpoint(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An advertised listener."""

    listener: str
    host: str
    port: int


class GatewayRegistered(Event, frozen=True, tag=2):
    """One life of a gateway begins.

    supersedes: the earlier incarnation of the same instance key, which ends here and whose claims
    are inherited; 0 when there is none.  highest_version: the metadata.version up to which it can
    read; see metadata_versions.py.
    """

    incarnation: int
    node_id: int
    instance_key: str
    zone: str
    endpoints: tuple[Endpoint, ...]
    software_version: str
    supersedes: int
    highest_version: int = 1


class GatewayRenewed(Event, frozen=True, tag=3):
    """Renews its author's lease; written if the author has no other entry to write.

    highest_version: as in GatewayRegistered, repeated because a snapshot of an older release does
    not hold it; 0: not given.
    """

    highest_version: int = 0


class GatewayDraining(Event, frozen=True, tag=4):
    """The gateway takes no new work.

    stops: its process ends once it has no work left.
    """

    incarnation: int
    stops: bool = False


class GatewayExpired(Event, frozen=True, tag=5):
    """The incarnation ended: its lease expired, or it left."""

    incarnation: int


class ClaimTaken(Event, frozen=True, tag=6):
    """From here on, only this incarnation may make the changes that the claim guards.

    tenant: the owner of the group or link that the claim is for; other claims are the cluster's.
    """

    name: str
    incarnation: int
    epoch: int
    tenant: Tenant = 0


class ClaimReleased(Event, frozen=True, tag=7):
    """The holder released the claim; its epoch stays known while the name is in use."""

    name: str
    tenant: Tenant = 0


class GatewayResumed(Event, frozen=True, tag=15):
    """A gateway that was draining takes new work again."""

    incarnation: int


class GatewayDrained(Event, frozen=True, tag=16):
    """A draining gateway has no work left: no client, no group."""

    incarnation: int


class MetadataVersionSet(Event, frozen=True, tag=17):
    """From the next entry on, gateways write what this level allows; see metadata_versions.py."""

    version: int


class StaticSettingsTold(Event, frozen=True, tag=18):
    """A gateway's static settings that apply to the whole cluster.  settings: only the set ones, by
    name; see configs/cluster_wide.py.
    """

    level: ClassVar[int] = SETTINGS_TOLD

    incarnation: int
    settings: dict[str, str]


class TopicCreated(Event, frozen=True, tag=10):
    """topic_id: 16 random bytes; configs: only the set ones, as Kafka's names and text values."""

    topic_id: bytes
    name: str
    partition_count: Count
    replication_factor: int
    configs: dict[str, str]
    tenant: Tenant = 0


class PartitionsAdded(Event, frozen=True, tag=11):
    """partition_count: the new total."""

    topic_id: bytes
    partition_count: int


class TopicDeleted(Event, frozen=True, tag=12):
    """Deletes the topic, its partitions, and all its committed offsets."""

    topic_id: bytes


class ConfigsSet(Event, frozen=True, tag=13):
    """Replaces all dynamic configs of a resource.

    resource_type: Kafka's (2 topic, 4 broker, 32 group); resource_name: topic name, node id or ""
    for the default of all brokers, group id.
    """

    resource_type: int
    resource_name: str
    configs: dict[str, str]
    tenant: Tenant = 0


class Run(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A maximal stretch of accepted batches of one partition in one object.

    position, length: bytes in the object.  check: see tidegate_storage.objects.runs.
    flags: RUN_* bits.
    max_timestamp: largest time stamp in ms; the append time where RUN_LOG_APPEND_TIME is set.
    """

    partition: int
    position: int
    length: int
    base_offset: int
    record_count: int
    max_timestamp: int
    check: int
    flags: int


RUN_LOG_APPEND_TIME = 1


class ProducerBatch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The trace of an accepted idempotent batch in its partition's producer state."""

    partition: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int


class WalCommitted(Event, frozen=True, tag=20):
    """A WAL object's accepted batches became readable."""

    incarnation: int
    counter: int
    size_bytes: UInt32
    runs: tuple[Run, ...]
    producers: tuple[ProducerBatch, ...]


class WalAbandoned(Event, frozen=True, tag=21):
    """The WAL id will never be committed; its object, if there is one, may be collected."""

    incarnation: int
    counter: int


class LogStartsMoved(Event, frozen=True, tag=22):
    """moves: (partition number, new log start offset)."""

    moves: tuple[tuple[int, int], ...]


class ObjectsCollected(Event, frozen=True, tag=23):
    """The objects are deleted, or the writer is about to delete them; the state forgets them."""

    numbers: tuple[int, ...]


class Segment(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A segment object, and the offsets [base_offset, next_offset) that it replaces.

    attempt: with the writer's incarnation and the place, its name (tidegate_storage.objects.keys).
    position: the position of its index in the object.  length: the bytes of the batches before the
    index. check: CRC-32C of the index.
    """

    attempt: int
    size_bytes: UInt32
    position: UInt32
    length: UInt32
    base_offset: int
    next_offset: int
    max_timestamp: int
    check: UInt32


RUN_SEGMENT = 2
RUN_MARKER = 4
"""The end of a transaction; only in the state, see state/records/runs.py."""
RUN_COMMIT = 8
RUN_FINAL = 16
"""Batches of a mirrored partition: they have their offsets, with gaps, and their leader epochs.
record_count is the number of offsets from the run before it to its own end.
"""
RUN_HEADED = 32
"""The check of a run of RUN_FINAL covers these offsets and epochs, too; from SWITCHES on."""
RUN_WALKED = 64
"""max_timestamp is that of the records, which were walked; from WALKED_TIMES on.  Else it is only
the value in a client's header.
"""
# 128, the last bit of the column, is for runs whose bytes are sealed with a tenant's key.  It needs
# a new level, because no release reads such bytes.


class SegmentsOfPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The runs of a partition in [base_offset, next_offset) give way to segments.

    records, digest: the count and the content of the written records
      (tidegate_pipeline.tasks.digests): equal to those of the records read, except for records that
      compaction removed.
    """

    partition: int
    base_offset: int
    next_offset: int
    segments: tuple[Segment, ...]
    records: int
    digest: Annotated[int, Within(range(1 << 64))]
    removed: int = 0


class SegmentsPublished(Event, frozen=True, tag=26):
    """Segments of an incarnation replace their parents, which are dead now."""

    incarnation: int
    partitions: tuple[SegmentsOfPartition, ...]


class CleanedPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Below end_offset, each key has only its newest record.

    retention_ms: the topic's delete.retention.ms during the round.
    """

    partition: int
    end_offset: int
    retention_ms: int


class PartitionsCleaned(Event, frozen=True, tag=28):
    """The pipeline has compacted partitions up to these offsets."""

    partitions: tuple[CleanedPartition, ...]


class SkippedStretch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The runs of a partition that are exactly [base_offset, next_offset)."""

    partition: int
    base_offset: int
    next_offset: int


class RunsSkipped(Event, frozen=True, tag=27):
    """An operator skipped runs that cannot be read; readers continue after them.

    incarnation: the command's incarnation.  Offsets of all other records stay, and so do producer
    states. From level KEPT_SKIPS on, the runs are kept until a SkipsEnded names them; see
    state/records/kept.py.
    """

    incarnation: int
    stretches: tuple[SkippedStretch, ...]


class SkipsEnded(Event, frozen=True, tag=19):
    """An operator brought skipped runs back, as they can be read again, or gave them up.

    incarnation: the command's incarnation. are_back: False if the runs are given up.
    """

    level: ClassVar[int] = KEPT_SKIPS

    incarnation: int
    stretches: tuple[SkippedStretch, ...]
    are_back: bool


class ProducerIdsReserved(Event, frozen=True, tag=24):
    """Producer ids [first, first + count) belong to the writer, which gives them out."""

    first: int
    count: int


class ProducersExpired(Event, frozen=True, tag=25):
    """Producer states last written before the log time (ms) are forgotten."""

    before_ms: int


class Proposed(Event, frozen=True, tag=30):
    """The following events, up to the next Proposed, belong to a numbered proposal.

    incarnation, number: the author, and the number of its proposal. acknowledged: the author never
    asks again for this number or a lower one. clock_ms, uptime_ms: the author's clocks when it
    asked, as in the head of an entry. answer: see forwarding/codec.py; repeated if the author asks
    again.
    """

    incarnation: int
    number: int
    acknowledged: int
    clock_ms: int
    uptime_ms: int
    answer: bytes
