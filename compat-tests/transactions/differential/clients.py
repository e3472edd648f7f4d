"""The clients of a script, with the facts that their broker gave them, and their requests.  Pure.

Each broker has its own clients.  If producer ids differ, the same step becomes other bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import delete_records as dr
from tidegate_protocol.messages import delete_topics as dt
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import leave_group as lg
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_delete as od
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import sync_group as sg
from tidegate_protocol.messages import txn_offset_commit as tc
from tidegate_protocol.messages import write_txn_markers as wm
from tidegate_protocol.records import Record, build_batch

from . import steps as st
from .names import Names
from .wire import Request

UNKNOWN_ID: Final = 1 << 40
_LETTERS: Final = "abc"
_UNKNOWN_TOPIC_ID: Final = b"\xee" * 16
_NO_TOPIC_ID: Final = bytes(16)
_TOPIC_IDS_SINCE: Final = {"Produce": 13, "OffsetCommit": 10}
_SEVERAL_TRANSACTIONS_SINCE: Final = 4
_MEMBERS_SINCE: Final = 3
_INSTANCES_SINCE: Final = 7
_SESSION_MS: Final = 300_000
_REQUEST_MS: Final = 30_000
_SEQUENCES: Final = 1 << 31


@dataclass(slots=True)
class ProducerClient:
    """A producer.  next, last: by place, the next sequence number and that of the last batch."""

    name: str | None
    id: int = -1
    epoch: int = -1
    next: dict[st.Place, int] = field(default_factory=dict)
    last: dict[st.Place, int] = field(default_factory=dict)

    def take(self, producer_id: int, epoch: int) -> None:
        """Continue with a producer id and epoch; if one of them is new, begin with sequence 0."""
        if (producer_id, epoch) != (self.id, self.epoch):
            self.id, self.epoch = producer_id, epoch
            self.next.clear()
            self.last.clear()

    def sequence(self, batch: st.Batch) -> int:
        """Return a batch's first sequence number."""
        following = self.next.get(batch.place, 0)
        found = {
            "next": following,
            "last": self.last.get(batch.place, 0),
            "gap": following + 1,
            "zero": 0,
        }
        return found[batch.sequence] % _SEQUENCES

    def wrote(self, batch: st.Batch, first_sequence: int) -> None:
        """Note an accepted batch."""
        if batch.sequence != "last":
            self.last[batch.place] = first_sequence
            self.next[batch.place] = first_sequence + batch.records


@dataclass(slots=True)
class GroupClient:
    """A group and its one member."""

    name: str
    member_id: str = ""
    generation: int = -1
    instance: str | None = None


class Clients:
    """All clients of a script."""

    def __init__(self, prefix: str, now_ms: int, names_of: Names, *, shares_name: bool) -> None:
        names = [f"{prefix}-x", f"{prefix}-x" if shares_name else f"{prefix}-y", None]
        self.prefix: Final = prefix
        self._now_ms: Final = now_ms
        self._names: Final = names_of
        self.producers: Final = [ProducerClient(each) for each in names]
        self.groups: Final = [GroupClient(f"{prefix}-g{each}") for each in range(st.GROUPS)]
        self.topic_ids: Final[dict[int, bytes]] = {}

    def topic(self, number: int) -> str:
        """Return the name of a topic."""
        return f"{self.prefix}-{_LETTERS[number]}"

    def topic_number(self, name: str, topic_id: bytes) -> int:
        """Return the number of a topic by its name, or by its present id."""
        if not name:
            known = [each for each, found in self.topic_ids.items() if found == topic_id]
            return known[0] if known else st.UNKNOWN_TOPIC
        return _LETTERS.index(name[-1])

    def names(self) -> list[str]:
        """Return all transactional ids."""
        return list(dict.fromkeys(each.name for each in self.producers if each.name))

    def identity(self, who: st.Who) -> tuple[str, int, int]:
        """Return the transactional id, producer id and epoch of a request."""
        own = self.producers[who.producer]
        other = self.producers[(who.producer + 1) % st.PRODUCERS]
        ids = {"own": own.id, "other": other.id, "unknown": UNKNOWN_ID, "none": -1}
        names = {
            "own": own.name or "",
            "other": self.producers[1 - who.producer % 2].name or "",
            "unknown": f"{self.prefix}-z",
            "empty": "",
        }
        epoch = own.epoch
        if who.epoch:
            epoch = self._names.raw_epoch(own.id, self._names.epoch(own.id, epoch) + who.epoch)
        return names[who.name], ids[who.id], max(epoch, -1)

    # -- requests --------------------------------------------------------------------------------

    def initialise(self, step: st.Initialise) -> Request:
        """InitProducerId."""
        name, producer_id, epoch = self.identity(step.who)
        if self.producers[step.who.producer].name is None and step.who.name == "own":
            body = ip.InitProducerIdRequest(None, step.timeout_ms)
        else:
            body = ip.InitProducerIdRequest(name, step.timeout_ms)
        if step.keeps:
            body.producer_id, body.producer_epoch = producer_id, epoch
        return Request("InitProducerId", step.version, body)

    def add_partitions(self, step: st.AddPartitions) -> Request:
        """AddPartitionsToTxn."""
        name, producer_id, epoch = self.identity(step.who)
        topics = [
            ap.AddPartitionsToTxnTopic(self.topic(topic), partitions)
            for topic, partitions in _by_topic(step.places)
        ]
        if step.version >= _SEVERAL_TRANSACTIONS_SINCE:
            each = ap.AddPartitionsToTxnTransaction(name, producer_id, epoch, step.verifies, topics)
            body = ap.AddPartitionsToTxnRequest([each])
        else:
            body = ap.AddPartitionsToTxnRequest([], name, producer_id, epoch, topics)
        return Request("AddPartitionsToTxn", step.version, body)

    def add_offsets(self, step: st.AddOffsets) -> Request:
        """AddOffsetsToTxn."""
        body = ao.AddOffsetsToTxnRequest(*self.identity(step.who), self.groups[step.group].name)
        return Request("AddOffsetsToTxn", step.version, body)

    def write(self, step: st.Write, index: int) -> Request:
        """Produce."""
        name, producer_id, epoch = self.identity(step.who)
        producer = self.producers[step.who.producer]
        topics: dict[int, list[pr.PartitionProduceData]] = {}
        for each in step.batches:
            data = build_batch(
                [
                    Record(number, self._now_ms, None, b"%d.%d" % (index, number))
                    for number in range(each.records)
                ],
                attributes=TRANSACTIONAL if each.is_transactional else 0,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=producer.sequence(each),
            )
            topic, partition = each.place
            topics.setdefault(topic, []).append(pr.PartitionProduceData(partition, data))
        rows = [
            pr.TopicProduceData(
                self.topic(topic), self._topic_id("Produce", step.version, topic), each
            )
            for topic, each in topics.items()
        ]
        wanted = (name or None) if step.has_name else None
        return Request(
            "Produce", step.version, pr.ProduceRequest(wanted, step.acks, _REQUEST_MS, rows)
        )

    def stage(self, step: st.StageOffsets) -> Request:
        """TxnOffsetCommit."""
        name, producer_id, epoch = self.identity(step.who)
        group_id = self.groups[step.group].name
        topics = [
            tc.TxnOffsetCommitRequestTopic(
                self.topic(topic),
                [
                    tc.TxnOffsetCommitRequestPartition(
                        each, step.offset, -1, "m" * step.metadata_bytes
                    )
                    for each in partitions
                ],
            )
            for topic, partitions in _by_topic(step.places)
        ]
        is_known = step.version >= _MEMBERS_SINCE
        member = self._member(step.group, step.member if is_known else st.Member())
        body = tc.TxnOffsetCommitRequest(name, group_id, producer_id, epoch, *member, topics)
        return Request("TxnOffsetCommit", step.version, body)

    def commit(self, step: st.CommitOffsets) -> Request:
        """OffsetCommit."""
        topics = [
            oc.OffsetCommitRequestTopic(
                self.topic(topic),
                self._topic_id("OffsetCommit", step.version, topic),
                [
                    oc.OffsetCommitRequestPartition(each, step.offset, -1, "plain")
                    for each in partitions
                ],
            )
            for topic, partitions in _by_topic(step.places)
        ]
        group_id = self.groups[step.group].name
        member = self._member(step.group, step.member)
        if step.version < _INSTANCES_SINCE:
            member = (*member[:2], None)
        body = oc.OffsetCommitRequest(group_id, *member, -1, topics)
        return Request("OffsetCommit", step.version, body)

    def delete_offsets(self, step: st.DeleteOffsets) -> Request:
        """OffsetDelete."""
        topics = [
            od.OffsetDeleteRequestTopic(
                self.topic(topic), [od.OffsetDeleteRequestPartition(each) for each in partitions]
            )
            for topic, partitions in _by_topic(step.places)
        ]
        return Request(
            "OffsetDelete", 0, od.OffsetDeleteRequest(self.groups[step.group].name, topics)
        )

    def delete_group(self, step: st.DeleteGroup) -> Request:
        """DeleteGroups."""
        return Request("DeleteGroups", 2, dg.DeleteGroupsRequest([self.groups[step.group].name]))

    def join(self, step: st.Join) -> Request:
        """JoinGroup: version 3 needs no member id for the first request; 5 has instance ids."""
        group = self.groups[step.group]
        body = jg.JoinGroupRequest(
            group.name,
            _SESSION_MS,
            _SESSION_MS,
            group.member_id,
            group.instance if group.member_id else (f"{group.name}-i" if step.is_static else None),
            "consumer",
            [jg.JoinGroupRequestProtocol("range", b"")],
        )
        return Request("JoinGroup", 5 if body.group_instance_id else 3, body)

    def sync(self, group: GroupClient) -> Request:
        """SyncGroup."""
        body = sg.SyncGroupRequest(
            group.name,
            group.generation,
            group.member_id,
            group.instance,
            assignments=[sg.SyncGroupRequestAssignment(group.member_id, b"")],
        )
        return Request("SyncGroup", 3, body)

    def leave(self, step: st.Leave) -> Request:
        """LeaveGroup."""
        group = self.groups[step.group]
        return Request("LeaveGroup", 2, lg.LeaveGroupRequest(group.name, group.member_id))

    def end(self, step: st.End) -> Request:
        """EndTxn."""
        body = et.EndTxnRequest(*self.identity(step.who), step.commits)
        return Request("EndTxn", step.version, body)

    def mark(self, step: st.Mark) -> Request:
        """WriteTxnMarkers."""
        _, producer_id, epoch = self.identity(step.who)
        topic, partition = step.place
        marker = wm.WritableTxnMarker(
            producer_id,
            epoch,
            step.commits,
            [wm.WritableTxnMarkerTopic(self.topic(topic), [partition])],
        )
        return Request("WriteTxnMarkers", step.version, wm.WriteTxnMarkersRequest([marker]))

    def delete_records(self, place: st.Place, offset: int) -> Request:
        """DeleteRecords."""
        topic, partition = place
        row = dr.DeleteRecordsTopic(
            self.topic(topic), [dr.DeleteRecordsPartition(partition, offset)]
        )
        return Request("DeleteRecords", 2, dr.DeleteRecordsRequest([row], _REQUEST_MS))

    def delete_topic(self, step: st.DeleteTopic) -> Request:
        """DeleteTopics."""
        body = dt.DeleteTopicsRequest([], [self.topic(step.topic)], _REQUEST_MS)
        return Request("DeleteTopics", 5, body)

    def create_topics(self, numbers: Iterable[int]) -> Request:
        """CreateTopics."""
        topics = [ct.CreatableTopic(self.topic(each), st.PARTITIONS, 1) for each in numbers]
        return Request("CreateTopics", 7, ct.CreateTopicsRequest(topics, _REQUEST_MS))

    def list_all(self, step: st.ListAll) -> Request:
        """ListTransactions.  The step's pattern follows the prefix of the script's names."""
        body = lt.ListTransactionsRequest(list(step.states), duration_filter=step.duration_ms)
        if step.of_producer is not None:
            body.producer_id_filters = [self.producers[step.of_producer].id]
        if step.pattern is not None:
            body.transactional_id_pattern = f"{self.prefix}{step.pattern}"
        return Request("ListTransactions", step.version, body)

    def _topic_id(self, api: str, version: int, topic: int) -> bytes:
        if version < _TOPIC_IDS_SINCE[api]:
            return _NO_TOPIC_ID
        return self.topic_ids.get(topic, _UNKNOWN_TOPIC_ID)

    def _member(self, number: int, member: st.Member) -> tuple[int, str, str | None]:
        """Return the generation, member id and instance id."""
        group = self.groups[number]
        found: dict[str, tuple[int, str, str | None]] = {
            "none": (-1, "", None),
            "own": (group.generation, group.member_id, group.instance),
            "stale": (group.generation - 1, group.member_id, group.instance),
            "unknown": (max(group.generation, 1), "stranger", None),
            "instance": (group.generation, "stranger", f"{group.name}-i"),
            "bare": (max(group.generation, 0), "", None),
        }
        return found[member.kind]


def _by_topic(places: Sequence[st.Place]) -> list[tuple[int, list[int]]]:
    topics: dict[int, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return list(topics.items())
