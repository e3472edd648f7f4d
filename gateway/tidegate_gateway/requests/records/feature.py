"""The feature of records: Produce, Fetch, and requests about offsets and producers."""

from __future__ import annotations

from tidegate_coordination.state.changes import EVERY_ENTRY
from tidegate_protocol.headers import RequestHeader

from ...counting.slow_requests import Waits
from ...feature import Feature, Ground, Row, StagedRow, Task, always
from ...fetch.fetch_plan import FetchSettings
from ...fetch.fetch_sessions import FetchSessions
from ...fetch.fetch_waiters import FetchWaiters
from ...network.arenas import Arena
from ...network.connection import Connection
from ...parts.links import LinkParts
from ...parts.quotas import QuotaParts
from ...parts.reads import ReadParts
from ...parts.view import ViewParts
from ...parts.writes import WriteParts
from ...produce.record_checks import RecordChecks
from ...quotas.throttling import Throttling
from ...security.authority import Authority
from ...security.guard import open_to_all
from ...zones.read_steering import ReadSteering
from .acts import records_deleted
from .delete_records import DeleteRecordsHandler
from .describe_producers import DescribeProducersHandler
from .fetch import Fetch
from .guards import (
    guard_delete_records,
    guard_describe_producers,
    guard_list_offsets,
    guard_offset_for_leader_epoch,
)
from .list_offsets import ListOffsets
from .offset_for_leader_epoch import OffsetForLeaderEpoch
from .produce import Produce
from .produce_fast_path import PlainProducePath
from .produce_forwarding import ProduceForwarding
from .turned_back import TurnedBack


def records_feature(
    ground: Ground,
    reads: ReadParts,
    writes: WriteParts,
    links: LinkParts,
    view: ViewParts,
    limits: QuotaParts,
    authority: Authority | None,
) -> Feature:
    """Return the feature.  authority: None without an authorizer.

    Produce and Fetch check rights themselves.  Fetch checks the partitions of its session.
    """
    mirrored = _mirrored(ground, writes, links)
    most = ground.settings.int("link.forward.bytes.max")
    produce = Produce(
        ground.coordinator,
        writes.writer,
        writes.flusher,
        ground.cluster.of,
        ground.environment.now_ms,
        _record_checks(ground),
        writes.produce_deadlines,
        ground.counters,
        mirrored,
        TurnedBack(mirrored, ground.coordinator.state.topics, writes.writer, most),
        authority,
    )
    return Feature(
        "records",
        (
            _produce_row(produce, limits.throttling),
            _fetch_row(ground, reads, view.steering, authority),
            *_offset_rows(ground, reads, links),
        ),
        (Task("time produce requests out", writes.produce_deadlines.run),),
    )


def _mirrored(ground: Ground, writes: WriteParts, links: LinkParts) -> ProduceForwarding:
    return ProduceForwarding(
        ground.coordinator.state.topics,
        links.forwards,
        links.transaction_forwards,
        writes.flusher,
        ground.cluster.of,
    )


def _record_checks(ground: Ground) -> RecordChecks:
    return RecordChecks(
        ground.settings.text("record.validation") == "full",
        ground.environment.pools.records,
        ground.environment.now_ms,
        ground.settings.int("record.decompressed.max.bytes"),
    )


def _produce_row(produce: Produce, throttling: Throttling) -> StagedRow:
    async def start(
        connection: Connection, header: RequestHeader, frame: memoryview, arena: Arena
    ) -> None:
        throttle = throttling.produce(connection, header, len(frame))
        body = frame[header.body_position :]
        stage_one = produce.start(connection, header, body, arena, throttle)
        await (stage_one if throttle is None else throttle.timed(stage_one))

    path = PlainProducePath(produce)
    return StagedRow(path.api_key, path.start, start)


def _fetch_row(
    ground: Ground,
    reads: ReadParts,
    steering: ReadSteering,
    authority: Authority | None,
) -> Row:
    coordinator = ground.coordinator
    fetch = Fetch(
        coordinator,
        reads.reader,
        FetchWaiters(coordinator.state.partitions),
        FetchSessions(ground.environment.rng),
        _fetch_settings(ground),
        reads.read_ahead,
        steering,
        reads.reply_memory,
        authority,
        ground.counters,
    )
    coordinator.listen(fetch.on_change, EVERY_ENTRY)
    return Row(
        fetch,
        open_to_all,
        is_brief=True,
        holds_nothing=True,
        waits=Waits.FOR_RECORDS,
        is_of_members=True,
        # A fetch's last look at all its partitions is one step; see fetch_waiters.py.
        max_elements=15_000,
    )


def _offset_rows(ground: Ground, reads: ReadParts, links: LinkParts) -> tuple[Row, ...]:
    coordinator = ground.coordinator
    return (
        Row(
            ListOffsets(
                coordinator,
                links.source_ends,
                reads.reader,
                _fetch_settings(ground),
                ground.environment.pools.records,
            ),
            guard_list_offsets,
        ),
        Row(OffsetForLeaderEpoch(coordinator), guard_offset_for_leader_epoch),
        Row(
            DeleteRecordsHandler(coordinator, ground.cluster),
            guard_delete_records,
            act=records_deleted,
            is_audited=True,
            proposes=always,
        ),
        Row(DescribeProducersHandler(coordinator), guard_describe_producers),
    )


def _fetch_settings(ground: Ground) -> FetchSettings:
    return FetchSettings(
        max_bytes=ground.settings.int("fetch.max.bytes"),
        min_file_bytes=ground.environment.min_file_bytes,
    )
