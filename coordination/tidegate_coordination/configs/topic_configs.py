"""Every topic config of Apache Kafka 4.3.1, and which of them mean something here.

Names, types, defaults, bounds and synonyms were read out of Kafka's published jars (LogConfig,
ServerTopicConfigSynonyms); `tests/facts` holds them, and a test compares.  The texts are ours.
Those not `listed` are accepted and shown once set, but are not part of Kafka 4.3.1's public list.
"""

from __future__ import annotations

from .definition import (
    LONG_MAX,
    Check,
    ConfigType,
    Definition,
    at_least,
    between,
    between_or,
    one_of,
    throttled_replicas,
)

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
NO_TIERS = "Kept for tools: every record is in object storage, there are no tiers."
NO_FILES = "Kept for tools: a gateway has no log files."

_BOOLEAN, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG
_STRING, _LIST, _DOUBLE = ConfigType.STRING, ConfigType.LIST, ConfigType.DOUBLE
_LONG_MAX = str(LONG_MAX)


def _topic(
    name: str,
    kind: ConfigType,
    default: str | None,
    check: Check | None,
    synonym: str | None,
    *,
    doc: str,
) -> Definition:
    return Definition(name, kind, default, check, doc, synonym)


def _inert(
    name: str,
    kind: ConfigType,
    default: str | None,
    check: Check | None,
    synonym: str | None,
    *,
    doc: str = NO_FILES,
) -> Definition:
    return Definition(name, kind, default, check, doc, synonym, meaningful=False)


def _unlisted(name: str, kind: ConfigType, default: str | None, *, doc: str) -> Definition:
    return Definition(name, kind, default, None, doc, meaningful=False, listed=False)


_ROWS = (
    _topic("cleanup.policy", _LIST, "delete", one_of("compact", "delete"), "log.cleanup.policy",
           doc="delete: drop old records. compact: keep the newest record of each key. Or both."),
    _topic("compression.gzip.level", _INT, "-1", between_or(1, 9, -1), "compression.gzip.level",
           doc="Level used when compression.type is gzip; -1 is the library's choice."),
    _topic("compression.lz4.level", _INT, "9", between(1, 17), "compression.lz4.level",
           doc="Level used when compression.type is lz4."),
    _topic("compression.type", _STRING, "producer", one_of(*CODECS), "compression.type",
           doc="How batches are stored; producer keeps what the producer sent."),
    _topic("compression.zstd.level", _INT, "3", between(-131072, 22), "compression.zstd.level",
           doc="Level used when compression.type is zstd."),
    _topic("delete.retention.ms", _LONG, "86400000", at_least(0),
           "log.cleaner.delete.retention.ms",
           doc="How long a tombstone stays readable in a compacted topic."),
    _inert("file.delete.delay.ms", _LONG, "60000", at_least(0), "log.segment.delete.delay.ms"),
    _inert("flush.messages", _LONG, _LONG_MAX, at_least(1), "log.flush.interval.messages"),
    _inert("flush.ms", _LONG, _LONG_MAX, at_least(0), "log.flush.interval.ms"),
    _inert("follower.replication.throttled.replicas", _LIST, "", throttled_replicas, None,
           doc="Kept for tools: nothing is replicated between gateways."),
    _inert("index.interval.bytes", _INT, "4096", at_least(0), "log.index.interval.bytes"),
    _inert("leader.replication.throttled.replicas", _LIST, "", throttled_replicas, None,
           doc="Kept for tools: nothing is replicated between gateways."),
    _inert("local.retention.bytes", _LONG, "-2", at_least(-2), "log.local.retention.bytes",
           doc=NO_TIERS),
    _inert("local.retention.ms", _LONG, "-2", at_least(-2), "log.local.retention.ms",
           doc=NO_TIERS),
    _topic("max.compaction.lag.ms", _LONG, _LONG_MAX, at_least(1),
           "log.cleaner.max.compaction.lag.ms",
           doc="A record is compacted at the latest this long after it was written."),
    _topic("max.message.bytes", _INT, "1048588", at_least(0), "message.max.bytes",
           doc="The largest record batch a producer may send, in bytes, after compression."),
    _topic("message.timestamp.after.max.ms", _LONG, "3600000", at_least(0),
           "log.message.timestamp.after.max.ms",
           doc="How far a record's time stamp may lie ahead of the gateway's clock."),
    _topic("message.timestamp.before.max.ms", _LONG, _LONG_MAX, at_least(0),
           "log.message.timestamp.before.max.ms",
           doc="How far a record's timestamp may lie before the gateway's clock."),
    _topic("message.timestamp.type", _STRING, "CreateTime", one_of(*TIMESTAMP_TYPES),
           "log.message.timestamp.type",
           doc="CreateTime keeps the producer's time stamps, LogAppendTime replaces them."),
    _topic("min.cleanable.dirty.ratio", _DOUBLE, "0.5", between(0, 1),
           "log.cleaner.min.cleanable.ratio",
           doc="Compact when at least this part of a partition was not compacted yet."),
    _topic("min.compaction.lag.ms", _LONG, "0", at_least(0), "log.cleaner.min.compaction.lag.ms",
           doc="A record is not compacted before this long after it was written."),
    _inert("min.insync.replicas", _INT, "1", at_least(1), "min.insync.replicas",
           doc="Kept for tools: an acknowledged record is in object storage already."),
    _inert("preallocate", _BOOLEAN, "false", None, "log.preallocate"),
    _inert("remote.log.copy.disable", _BOOLEAN, "false", None, None, doc=NO_TIERS),
    _inert("remote.log.delete.on.disable", _BOOLEAN, "false", None, None, doc=NO_TIERS),
    _inert("remote.storage.enable", _BOOLEAN, "false", None, None, doc=NO_TIERS),
    _topic("retention.bytes", _LONG, "-1", None, "log.retention.bytes",
           doc="Drop the oldest records of a partition above this size; -1 for no limit."),
    _topic("retention.ms", _LONG, "604800000", at_least(-1), "log.retention.ms",
           doc="Drop records older than this; -1 for no limit."),
    _topic("segment.bytes", _INT, "1073741824", at_least(1048576), "log.segment.bytes",
           doc="The size of segments that the pipeline aims for."),
    _inert("segment.index.bytes", _INT, "10485760", at_least(4), "log.index.size.max.bytes"),
    _inert("segment.jitter.ms", _LONG, "0", at_least(0), "log.roll.jitter.ms"),
    _inert("segment.ms", _LONG, "604800000", at_least(1), "log.roll.ms"),
    _inert("unclean.leader.election.enable", _BOOLEAN, "false", None,
           "unclean.leader.election.enable", doc="Kept for tools: Tidegate elects no leaders."),
    _unlisted("diskless.enable", _BOOLEAN, "true",
              doc="Accepted for topics of other diskless brokers: every topic is diskless here."),
    _unlisted("internal.segment.bytes", _INT, None, doc=NO_FILES),
    _unlisted("remote.copy.lag.bytes", _LONG, "0", doc=NO_TIERS),
    _unlisted("remote.copy.lag.ms", _LONG, "0", doc=NO_TIERS),
)  # fmt: skip

TOPIC_CONFIGS: dict[str, Definition] = {row.name: row for row in _ROWS}
