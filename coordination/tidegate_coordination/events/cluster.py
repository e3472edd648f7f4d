"""Every event that can stand in the metadata log: outcomes, not intents.

An event says what was decided (offsets are already assigned), so that folding it decides nothing
and every version of the code agrees on what it means.  Tags are for ever: a tag is never used again
for another meaning, and fields are only added at the end, with a default.

Every event that carries a name that people choose has a `tenant`, whose name it is: 0, for nothing
gives out others yet (state/trial.py refuses them), and the format need not change when it does.

Numbers of topics, partitions and objects are dense integers given out by the fold in log order, so
all replicas agree on them without storing them twice.
"""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Base of all events; encoded as a msgpack array that begins with the tag."""


class ClusterCreated(Event, frozen=True, tag=1):
    """The first event of a log.

    cluster_id: 22 characters as Kafka prints UUIDs; timeline: 1, raised when a log is restored.
    lease_ms: see state/gateways.py; it takes part in the fold, so it is the same for all gateways.
    first_producer_id: where its producer ids begin; see state/producer_ids.py.
    """

    cluster_id: str
    timeline: int
    lease_ms: int = 30_000
    first_producer_id: int = 0


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
    """Only says that its author lives; written when it had nothing else to say.

    highest_version: as in GatewayRegistered, again, for a snapshot of an older release forgets it;
    0: it is not said.
    """

    highest_version: int = 0


class GatewayDraining(Event, frozen=True, tag=4):
    """The gateway takes no new work.

    stops: it ends once nothing of its work is left.
    """

    incarnation: int
    stops: bool = False


class GatewayExpired(Event, frozen=True, tag=5):
    """The incarnation ended: its lease ran out, or it left."""

    incarnation: int


class ClaimTaken(Event, frozen=True, tag=6):
    """From here on only this incarnation may write what the claim guards."""

    name: str
    incarnation: int
    epoch: int
    tenant: int = 0


class ClaimReleased(Event, frozen=True, tag=7):
    """The holder gave the claim up; its epoch stays known while the name is in use."""

    name: str
    tenant: int = 0


class GatewayResumed(Event, frozen=True, tag=15):
    """A gateway that was draining takes new work again."""

    incarnation: int


class GatewayDrained(Event, frozen=True, tag=16):
    """Nothing is left of the work of a gateway that drains: no client, no group."""

    incarnation: int


class MetadataVersionSet(Event, frozen=True, tag=17):
    """From the next entry on, gateways write what this level allows; see metadata_versions.py."""

    version: int


class StaticSettingsTold(Event, frozen=True, tag=18):
    """What a gateway was given at its start of the settings that are the cluster's.

    settings: only those set, by name; see configs/cluster_wide.py.
    """

    incarnation: int
    settings: dict[str, str]


class TopicCreated(Event, frozen=True, tag=10):
    """topic_id: 16 random bytes; configs: only those set, as Kafka's names and text values."""

    topic_id: bytes
    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str]
    tenant: int = 0


class PartitionsAdded(Event, frozen=True, tag=11):
    """partition_count: the new total."""

    topic_id: bytes
    partition_count: int


class TopicDeleted(Event, frozen=True, tag=12):
    """The topic, its partitions, and all committed offsets of it go."""

    topic_id: bytes


class ConfigsSet(Event, frozen=True, tag=13):
    """Replaces all dynamic configs of a resource.

    resource_type: Kafka's (2 topic, 4 broker, 32 group); resource_name: topic name, node id or ""
    for the default of all brokers, group id.
    """

    resource_type: int
    resource_name: str
    configs: dict[str, str]
    tenant: int = 0


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
    """What one accepted idempotent batch leaves in its partition's producer state."""

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
    size_bytes: int
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
    """The objects are deleted, or about to be by the writer; they are known no more."""

    numbers: tuple[int, ...]


class Segment(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A segment object, and the offsets [base_offset, next_offset) it stands for.

    attempt: with the writer's incarnation and the place, its name (tidegate_storage.objects.keys).
    position: of its index in the object.  length: of the batches in front of that.  check: CRC-32C
    of the index.
    """

    attempt: int
    size_bytes: int
    position: int
    length: int
    base_offset: int
    next_offset: int
    max_timestamp: int
    check: int


RUN_SEGMENT = 2


class SegmentsOfPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The runs of a partition in [base_offset, next_offset) give way to segments.

    records, digest: what was written, by count and by content (tidegate_pipeline.tasks.digests):
    the same as what was read, but for the records that compaction removed by its rules.
    """

    partition: int
    base_offset: int
    next_offset: int
    segments: tuple[Segment, ...]
    records: int
    digest: int
    removed: int = 0


class SegmentsPublished(Event, frozen=True, tag=26):
    """Segments written by an incarnation became what is read; their parents are dead."""

    incarnation: int
    partitions: tuple[SegmentsOfPartition, ...]


class CleanedPartition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Below end_offset, no record has a newer one of its key below end_offset.

    retention_ms: delete.retention.ms of the topic, as the round found it.
    """

    partition: int
    end_offset: int
    retention_ms: int


class PartitionsCleaned(Event, frozen=True, tag=28):
    """The pipeline has compacted partitions up to these offsets."""

    partitions: tuple[CleanedPartition, ...]


class PipelineReport(msgspec.Struct, array_like=True, frozen=True):
    """What a driver has done since its last report.

    merges, compactions: units published.  parents: what they were made from.  size_bytes, records:
    of what was written.  removed: records that compaction left out.  failed: units that could not
    be done, last_error: why, of the last one.  dropped: units that were done in vain, by reason.
    """

    merges: int
    compactions: int
    parents: int
    size_bytes: int
    records: int
    removed: int
    failed: int
    last_error: str
    dropped: dict[str, int]


class PipelineReported(Event, frozen=True, tag=29):
    """A driver of the pipeline says what it did."""

    incarnation: int
    report: PipelineReport


class SkippedStretch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The runs of a partition that are exactly [base_offset, next_offset)."""

    partition: int
    base_offset: int
    next_offset: int


class RunsSkipped(Event, frozen=True, tag=27):
    """An operator gave up runs that cannot be read; readers go on behind them.

    incarnation: of the command.  Offsets of all other records stay, and so do producer states.
    """

    incarnation: int
    stretches: tuple[SkippedStretch, ...]


class ProducerIdsReserved(Event, frozen=True, tag=24):
    """Producer ids [first, first + count) belong to the writer, to give out."""

    first: int
    count: int


class ProducersExpired(Event, frozen=True, tag=25):
    """Producer states last written before the log time (ms) are forgotten."""

    before_ms: int


class Proposed(Event, frozen=True, tag=30):
    """The events behind it, up to the next of its kind, come of a numbered proposal.

    incarnation, number: whose, and which of its proposals.  acknowledged: its author never asks
    again for this number or a lower one.  clock_ms, uptime_ms: the author's when it asked, as in
    the head of an entry.  answer: see forwarding/codec.py; given again when it is asked again.
    """

    incarnation: int
    number: int
    acknowledged: int
    clock_ms: int
    uptime_ms: int
    answer: bytes
