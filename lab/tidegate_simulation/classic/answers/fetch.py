"""Fetch: long polls, sessions and bounds as of Kafka 4.3.

At least one batch is returned whatever the bounds, of the first partition that has records; the
last batch of a partition may be cut.  Consumers may read from followers (KIP-392), which have the
leader's bytes here.

Differs from Kafka: no quotas, no preferred read replica, one segment for each partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.primitives import ZERO_UUID

from .. import rights
from ..broker_state import NO_EPOCH, Asked, BrokerState
from ..endpoints import endpoint
from ..fetch_sessions import Answer, Context, Result, Wanted
from ..log.model_log import COMMITTED, LOG_END, WATERMARK, ModelLog
from ..model_topics import ModelPartition, PartitionKey
from ..refusals import Refused

_FETCH_MAX_BYTES: Final = 57_671_680  # the broker's fetch.max.bytes
_FIRST_VERSION_WITH_RACKS: Final = 11
_FIRST_VERSION_WITH_IDS: Final = 13
_FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
_FIRST_VERSION_WITH_LEADERS: Final = 16
_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The isolation, the side and the bounds of a request's reads."""

    isolation: str
    leads: bool
    max_bytes: int
    min_bytes: int


class _Found(NamedTuple):
    results: list[Result]
    size_bytes: int
    must_answer: bool


async def answer_fetch(asked: Asked, request: fe.FetchRequest) -> fe.FetchResponse:
    """Answer as soon as there are enough bytes or an error, at the latest after max_wait_ms."""
    broker, sessions = asked.broker, asked.broker.sessions
    names = broker.cluster.names if asked.version >= _FIRST_VERSION_WITH_IDS else {}
    context = sessions.begin(request, asked.version, names, broker.now())
    bounds = _bounds(asked, request)
    interesting, erroneous = _sorted_out(asked, context, bounds)
    results = await _poll(broker, interesting, bounds, request.max_wait_ms)
    answer = sessions.finish(context, results + erroneous, asked.version, broker.now())
    return _response(asked, answer)


def _bounds(asked: Asked, request: fe.FetchRequest) -> _Bounds:
    replica_id = request.replica_id
    if asked.version >= _FIRST_VERSION_WITH_REPLICA_STATE:
        state = request.replica_state
        replica_id = state.replica_id if state is not None else _UNKNOWN
    max_bytes = min(request.max_bytes, _FETCH_MAX_BYTES)
    min_bytes = min(request.min_bytes, max_bytes)
    if replica_id >= 0:
        return _Bounds(LOG_END, True, max_bytes, min_bytes)
    isolation = COMMITTED if request.isolation_level else WATERMARK
    return _Bounds(isolation, asked.version < _FIRST_VERSION_WITH_RACKS, max_bytes, min_bytes)


def _sorted_out(
    asked: Asked, context: Context, bounds: _Bounds
) -> tuple[list[Wanted], list[Result]]:
    interesting: list[Wanted] = []
    erroneous: list[Result] = []
    # Kafka finds the unknown ids first.
    for each in sorted(context.wanted, key=_has_name):
        code = _first_error(asked, each, bounds)
        if code is None:
            interesting.append(each)
        else:
            erroneous.append((each, _failed(each, code, sends_null=False)))
    return interesting, erroneous


def _has_name(wanted: Wanted) -> bool:
    return wanted.topic is not None


def _first_error(asked: Asked, wanted: Wanted, bounds: _Bounds) -> ErrorCode | None:
    """Return the error that Kafka finds before it looks for the partition's log."""
    if wanted.topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if bounds.isolation == LOG_END:
        is_allowed = asked.may(rights.CLUSTER_ACTION, rights.CLUSTER)
    else:
        is_allowed = asked.may(rights.READ, rights.TOPIC, wanted.topic)
    if not is_allowed:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    try:
        asked.broker.partition(wanted.topic, wanted.asked.partition)
    except Refused as refused:
        return refused.code
    return None


async def _poll(
    broker: BrokerState, interesting: list[Wanted], bounds: _Bounds, max_wait_ms: int
) -> list[Result]:
    keys = [PartitionKey(each.topic or "", each.asked.partition) for each in interesting]
    with trio.move_on_after(max(max_wait_ms, 0) / 1000):
        while True:
            found = _read(broker, interesting, bounds)
            if found.must_answer or found.size_bytes >= bounds.min_bytes or max_wait_ms <= 0:
                return found.results
            with broker.signals.watch(keys) as changed:
                await changed.wait()
    return _read(broker, interesting, bounds).results


def _read(broker: BrokerState, interesting: list[Wanted], bounds: _Bounds) -> _Found:
    results: list[Result] = []
    left, size_bytes, must_answer = bounds.max_bytes, 0, not interesting
    for each in interesting:
        max_bytes = min(each.asked.partition_max_bytes, left)
        try:
            data = _partition(broker, each, bounds, max_bytes, whole_first=size_bytes == 0)
            must_answer |= data.diverging_epoch is not None
        except Refused as refused:
            data = _failed(each, refused.code, sends_null=True)
            must_answer = True
        size = len(_bytes(data))
        size_bytes += size
        left = max(0, left - size)
        results.append((each, data))
    return _Found(results, size_bytes, must_answer)


def _partition(
    broker: BrokerState, wanted: Wanted, bounds: _Bounds, max_bytes: int, *, whole_first: bool
) -> fe.PartitionData:
    asked = wanted.asked
    hosted = broker.hosted(wanted.topic or "", asked.partition, leads=False)
    topic = broker.topic(hosted.key.topic)
    if wanted.topic_id not in (ZERO_UUID, topic.topic_id):
        raise Refused(ErrorCode.INCONSISTENT_TOPIC_ID, "the topic was made again")
    broker.hosted(*hosted.key, asked.current_leader_epoch, leads=bounds.leads)
    log = hosted.log
    data = fe.PartitionData(
        asked.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start,
        aborted_transactions=None,
        records=b"",
    )
    data.diverging_epoch = _divergence(log, asked)
    if data.diverging_epoch is None:
        found = log.read(asked.fetch_offset, max_bytes, bounds.isolation, whole_first=whole_first)
        data.records = found.records
        if found.aborted is not None:
            data.aborted_transactions = [
                fe.AbortedTransaction(each.producer_id, each.first_offset) for each in found.aborted
            ]
    return data


def _divergence(log: ModelLog, asked: fe.FetchPartition) -> fe.EpochEndOffset | None:
    """Return where the reader's history parts from the leader's (KIP-595).

    Raises:
      Refused: OFFSET_OUT_OF_RANGE.
    """
    if asked.last_fetched_epoch == NO_EPOCH:
        return None
    epoch, end_offset = log.epochs.end_of(asked.last_fetched_epoch, log.end_offset)
    if epoch == NO_EPOCH or asked.fetch_offset < log.log_start:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, "no such epoch or offset")
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return fe.EpochEndOffset(epoch, end_offset)
    return None


def _failed(wanted: Wanted, code: ErrorCode, *, sends_null: bool) -> fe.PartitionData:
    """Return an error; if the log gave it, Kafka sends null for the aborted transactions."""
    return fe.PartitionData(
        wanted.asked.partition,
        code,
        high_watermark=_UNKNOWN,
        aborted_transactions=None if sends_null else [],
        records=b"",
    )


def _bytes(data: fe.PartitionData) -> bytes:
    return data.records if isinstance(data.records, bytes) else b""


def _response(asked: Asked, answer: Answer) -> fe.FetchResponse:
    response = fe.FetchResponse(error_code=answer.code, session_id=answer.session_id)
    for wanted, data in answer.results:
        last = response.responses[-1] if response.responses else None
        name = wanted.topic or ""
        if last is None or (last.topic, last.topic_id) != (name, wanted.topic_id):
            last = fe.FetchableTopicResponse(name, wanted.topic_id)
            response.responses.append(last)
        last.partitions.append(data)
    if asked.version >= _FIRST_VERSION_WITH_LEADERS:
        _name_leaders(asked.broker, answer, response)
    return response


def _name_leaders(broker: BrokerState, answer: Answer, response: fe.FetchResponse) -> None:
    """Name the leader beside NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951)."""
    leaders: dict[int, None] = {}
    helped = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    for wanted, data in answer.results:
        partition = _known(broker, wanted)
        if data.error_code in helped and partition is not None:
            data.current_leader = fe.LeaderIdAndEpoch(partition.leader, partition.leader_epoch)
            leaders[partition.leader] = None
    response.node_endpoints = [
        fe.NodeEndpoint(*found)
        for node_id in leaders
        if (found := endpoint(broker.cluster, node_id)) is not None
    ]


def _known(broker: BrokerState, wanted: Wanted) -> ModelPartition | None:
    topic = broker.cluster.topics.get(wanted.topic or "")
    return topic.partition(wanted.asked.partition) if topic is not None else None
