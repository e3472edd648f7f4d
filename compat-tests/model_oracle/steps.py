"""Random requests of one client to one topic, drawn from a seed.

A step is a request, or an act of an operator that both sides carry out in their own way.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tidegate_protocol.batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from tidegate_protocol.compression import Codec
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import describe_producers as dp
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import offset_for_leader_epoch as oe
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import Record, build_batch

PARTITIONS: Final = 2
UNKNOWN_ID: Final = b"no such topic id"
_PRODUCERS: Final = (910_001, 910_002)
_HOUR_MS: Final = 3_600_000
_CODECS: Final = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
_CONFIGS: Final = (
    ("max.message.bytes", "0", 0),
    ("max.message.bytes", "0", 0),
    ("max.message.bytes", "150", 0),
    ("max.message.bytes", None, 1),
    ("max.message.bytes", None, 1),
    ("message.timestamp.type", "LogAppendTime", 0),
    ("message.timestamp.type", None, 1),
    ("message.timestamp.before.max.ms", "60000", 0),
    ("message.timestamp.before.max.ms", None, 1),
    ("cleanup.policy", "compact", 2),
    ("cleanup.policy", "compact", 3),
    ("min.insync.replicas", "2", 0),
    ("min.insync.replicas", None, 1),
    ("retention.ms", "-2", 0),
    ("no.such.config", "1", 0),
    ("retention.ms", None, 0),
)


@dataclass(frozen=True, slots=True)
class Call:
    """A request.  Each side replaces TOPIC and TOPIC_ID in it by its topic's name and id."""

    api: str
    version: int
    body: Any


@dataclass(frozen=True, slots=True)
class Expire:
    """DeleteRecords of a share of the partition."""

    partition: int
    share: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A WriteTxnMarkers that ends the producer's transaction on a partition."""

    partition: int
    committed: bool


@dataclass(frozen=True, slots=True)
class WriteInTransaction:
    """A transactional batch of the transactional id's producer."""

    partition: int
    sequence: int


@dataclass(frozen=True, slots=True)
class InSession:
    """A Fetch in the script's session.  how: "open", "next", "late" (a wrong epoch) or "lost"."""

    how: str
    call: Call


Step = Call | Expire | Mark | WriteInTransaction | InSession
TOPIC: Final = "<topic>"
TOPIC_ID: Final = b"\xff" * 16


class Drawer:
    """Draws the steps of one script."""

    def __init__(self, seed: int, now_ms: int) -> None:
        self._rng = Random(seed)
        self._now_ms = now_ms
        self._sequences = dict.fromkeys(
            [(each, part) for each in _PRODUCERS for part in range(PARTITIONS)], 0
        )
        self._in_transaction = [0] * PARTITIONS

    def script(self, size: int) -> list[Step]:
        """Return some writes, then a mix."""
        writes: list[Step] = [self._plain() for _ in range(6)]
        return writes + [self._any() for _ in range(size)]

    def _any(self) -> Step:
        kinds = (
            (self._plain, 8),
            (self._odd, 6),
            (self._idempotent, 8),
            (self._transactional, 5),
            (self._mark, 3),
            (self._fetch, 16),
            (self._in_session, 12),
            (self._offsets, 8),
            (self._epochs, 2),
            (self._configs, 5),
            (self._describe, 3),
            (self._metadata, 3),
            (self._groups, 3),
            (self._expire, 2),
        )
        [draw] = self._rng.choices([each for each, _ in kinds], [each for _, each in kinds])
        step: Step = draw()
        return step

    # -- writes -----------------------------------------------------------------------------------

    def _records(self) -> list[Record]:
        rng = self._rng
        start_ms = self._now_ms - rng.randrange(_HOUR_MS)
        return [
            Record(place, start_ms + rng.randrange(1000), b"key %d" % place, rng.randbytes(9))
            for place in range(rng.choice((1, 1, 2, 5, 40)))
        ]

    def _produce(self, raw: bytes, partition: int, acks: int = -1) -> Call:
        version = self._rng.randint(7, 13)
        topic = pr.TopicProduceData(TOPIC if version < 13 else "", TOPIC_ID)
        topic.partition_data = [pr.PartitionProduceData(partition, raw)]
        return Call("Produce", version, pr.ProduceRequest(None, acks, 20_000, [topic]))

    def _partition(self) -> int:
        return self._rng.randrange(PARTITIONS)

    def _plain(self) -> Call:
        raw = build_batch(self._records(), codec=self._rng.choice(_CODECS))
        return self._produce(raw, self._partition(), self._rng.choice((-1, 1)))

    def _odd(self) -> Call:
        rng = self._rng
        raw = build_batch(self._records())
        late = [Record(0, self._now_ms + 3 * _HOUR_MS, b"k", b"v")]
        head = rng.choice((LOG_APPEND_TIME, CONTROL, TRANSACTIONAL))
        odd = rng.choice(
            (
                raw[:-1] + bytes([raw[-1] ^ 1]),
                raw[:-1] + bytes([raw[-1] ^ 1]),
                raw[:-1] + bytes([raw[-1] ^ 1]),
                raw[:-1],
                b"",
                raw + raw,
                raw + raw[:-1],
                raw + bytes(20),
                raw[:16] + b"\x03" + raw[17:],
                (7).to_bytes(8, "big") + raw[8:],
                build_batch(late),
                build_batch([Record(0, self._now_ms, None, b"v")]),
                build_batch(self._records(), attributes=head),
                build_batch(self._records(), producer_id=3, producer_epoch=0),
            )
        )
        partition = rng.choice((0, 1, 1, 7))
        return self._produce(odd, partition, rng.choice((-1, 1, 1, 5)))

    def _idempotent(self) -> Call:
        rng = self._rng
        producer_id, partition = rng.choice(_PRODUCERS), self._partition()
        records = self._records()
        next_one = self._sequences[producer_id, partition]
        how = rng.choice(("next", "next", "next", "again", "gap", "old", "new"))
        sequence, epoch = next_one, 1
        if how in ("again", "gap"):
            sequence = max(0, next_one + (len(records) if how == "gap" else -len(records)))
        if how in ("old", "new"):
            epoch = 0 if how == "old" else 2
        if how == "next":
            self._sequences[producer_id, partition] += len(records)
        raw = build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        return self._produce(raw, partition)

    def _transactional(self) -> Step:
        partition = self._partition()
        sequence = self._in_transaction[partition]
        if self._rng.random() < 0.85:
            self._in_transaction[partition] += 1
        else:
            sequence += 3
        return WriteInTransaction(partition, sequence)

    def _mark(self) -> Step:
        return Mark(self._partition(), self._rng.random() < 0.5)

    def _expire(self) -> Step:
        return Expire(self._partition(), self._rng.random())

    # -- reads ------------------------------------------------------------------------------------

    def _fetch(self) -> Call:
        rng = self._rng
        version = rng.randint(4, 18)
        topic = fe.FetchTopic(TOPIC, bytes(16))
        if version >= 13:
            topic = fe.FetchTopic("", TOPIC_ID)
        for partition in rng.sample((0, 1, 1, 5), 2) if rng.random() < 0.4 else [self._partition()]:
            if any(each.partition == partition for each in topic.partitions):
                continue
            wanted = fe.FetchPartition(partition, rng.choice((-1, -1, -1, 0, 0, 3)))
            wanted.fetch_offset = rng.choice((0, 1, 3, 5, 8, 12, 20, 40, 90, 500))
            wanted.partition_max_bytes = rng.choice((0, 1, 100, 300, 2000, 1 << 20))
            if version >= 12 and rng.random() < 0.2:
                wanted.last_fetched_epoch = rng.choice((0, 4))
            topic.partitions.append(wanted)
        if version >= 13 and rng.random() < 0.1:
            topic.topic_id = UNKNOWN_ID
        request = fe.FetchRequest(max_wait_ms=10, min_bytes=1, topics=[topic])
        request.max_bytes = rng.choice((1, 150, 3000, 1 << 20))
        request.isolation_level = rng.randrange(2)
        return Call("Fetch", version, request)

    def _in_session(self) -> Step:
        rng = self._rng
        call = self._fetch()
        version = 12 if call.version < 13 else 13
        body: fe.FetchRequest = call.body
        how = rng.choice(("open", "next", "next", "next", "next", "next", "late", "lost"))
        if how != "open" and rng.random() < 0.6:
            body.topics = []
        if how != "open" and rng.random() < 0.3:
            name = TOPIC if version < 13 else ""
            topic_id = TOPIC_ID if version >= 13 else bytes(16)
            body.forgotten_topics_data = [fe.ForgottenTopic(name, topic_id, [self._partition()])]
        return InSession(how, Call("Fetch", version, body))

    def _offsets(self) -> Call:
        rng = self._rng
        times = [self._now_ms - rng.randrange(_HOUR_MS) for _ in range(3)]
        wanted = lo.ListOffsetsPartition(
            rng.choice((0, 1, 1, 5)), -1, rng.choice((-1, -1, -2, -2, -3, -4, -5, -9, *times))
        )
        wanted.current_leader_epoch = rng.choice((-1, -1, 0, 2))
        version = rng.randint(1, 11)
        if version < 4:
            wanted.current_leader_epoch = -1
        request = lo.ListOffsetsRequest(rng.choice((-1, -1, -2)))
        request.topics = [lo.ListOffsetsTopic(TOPIC, [wanted])]
        if version >= 2:
            request.isolation_level = rng.randrange(2)
        return Call("ListOffsets", version, request)

    def _epochs(self) -> Call:
        rng = self._rng
        wanted = oe.OffsetForLeaderPartition(
            rng.choice((0, 1, 5)), rng.choice((-1, 0, 2)), rng.choice((-1, 0, 0, 1))
        )
        topic = oe.OffsetForLeaderTopic(TOPIC, [wanted])
        request = oe.OffsetForLeaderEpochRequest(topics=[topic])
        version = rng.randint(2, 4)
        if version >= 3:
            request.replica_id = -1
        return Call("OffsetForLeaderEpoch", version, request)

    # -- the rest ---------------------------------------------------------------------------------

    def _configs(self) -> Call:
        name, value, operation = self._rng.choice(_CONFIGS)
        change = ia.AlterableConfig(name, operation, value)
        resource = ia.AlterConfigsResource(
            2, self._rng.choice((TOPIC, TOPIC, TOPIC, "no")), [change]
        )
        return Call("IncrementalAlterConfigs", 1, ia.IncrementalAlterConfigsRequest([resource]))

    def _describe(self) -> Call:
        if self._rng.random() < 0.5:
            request = dp.DescribeProducersRequest([dp.TopicRequest(TOPIC, [0, 1, 5])])
            return Call("DescribeProducers", 0, request)
        wanted = dc.DescribeConfigsResource(2, self._rng.choice((TOPIC, TOPIC, "no")), None)
        return Call("DescribeConfigs", self._rng.randint(1, 4), dc.DescribeConfigsRequest([wanted]))

    def _metadata(self) -> Call:
        version = self._rng.choice((1, 5, 9, 12, 13))
        if version >= 12 and self._rng.random() < 0.5:
            topics = [md.MetadataRequestTopic(each, None) for each in (TOPIC_ID, UNKNOWN_ID)]
        else:
            topics = [md.MetadataRequestTopic(name=each) for each in (TOPIC, "no", "b/d")]
        return Call("Metadata", version, md.MetadataRequest(topics))

    def _groups(self) -> Call:
        if self._rng.random() < 0.5:
            indexes = [0, 1, 5]
            old = of.OffsetFetchRequest(TOPIC, [of.OffsetFetchRequestTopic(TOPIC, indexes)])
            return Call("OffsetFetch", self._rng.randint(1, 7), old)
        topic = oc.OffsetCommitRequestTopic(TOPIC)
        topic.partitions = [
            oc.OffsetCommitRequestPartition(each, 7, committed_metadata="m") for each in (0, 5)
        ]
        generation = self._rng.choice((-1, -1, 3))
        request = oc.OffsetCommitRequest(TOPIC, generation, topics=[topic])
        return Call("OffsetCommit", self._rng.randint(2, 9), request)
