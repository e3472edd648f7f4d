"""One row for each type of event: its fold, the tables that it changes, and its check.

The event's class names everything else (../events/).  If a row names too few tables, a listener
misses a change. The rows of some subjects are in rows/.
"""

from __future__ import annotations

from typing import Final

from ..events import cluster as ev
from ..events import groups as gev
from ..events import log_moves as lev
from ..events import pipeline as pev
from ..events import restores as rev
from ..events import transactions as tev
from .changes import (
    CLAIMS,
    CLUSTER,
    CONFIGS,
    GATEWAYS,
    GROUPS,
    LINK_GROUPS,
    LOG_MOVES,
    NAME_CHANGES,
    OBJECTS,
    OFFSETS_TOPIC,
    PARTITIONS,
    PIPELINE_REPORTS,
    PRODUCER_IDS,
    PROPOSALS,
    STATIC_SETTINGS,
    SWITCHES,
    TIMELINES,
    TOPICS,
    TRANSACTIONS,
)
from .rows.inlined import INLINED_ROWS
from .rows.links import LINK_ROWS
from .rows.row import Row
from .rows.security import SECURITY_ROWS

_RUNS: Final = PARTITIONS | OBJECTS
_TOPIC: Final = TOPICS | NAME_CHANGES | PARTITIONS
_OFFSETS: Final = GROUPS | OFFSETS_TOPIC | PARTITIONS  # each offset is a record, too
_LIFE: Final = GATEWAYS | STATIC_SETTINGS | OBJECTS | PROPOSALS | LOG_MOVES
ROWS: Final = (
    Row(
        ev.ClusterCreated,
        lambda f: f.cluster.fold_created,
        CLUSTER | GATEWAYS | PRODUCER_IDS,
        lambda t: t.cluster_created,
    ),
    Row(
        ev.GatewayRegistered,
        lambda f: f.cluster.fold_registered,
        _LIFE | CLAIMS,
        lambda t: t.registered_one,
    ),
    Row(ev.GatewayRenewed, lambda f: f.cluster.fold_renewed, GATEWAYS),
    Row(ev.GatewayDraining, lambda f: f.state.gateways.fold_draining, GATEWAYS, lambda t: t.lives),
    Row(ev.GatewayResumed, lambda f: f.state.gateways.fold_resumed, GATEWAYS, lambda t: t.resumed),
    Row(ev.GatewayDrained, lambda f: f.state.gateways.fold_drained, GATEWAYS, lambda t: t.drains),
    Row(ev.GatewayExpired, lambda f: f.cluster.fold_expired, _LIFE, lambda t: t.ends),
    Row(
        ev.MetadataVersionSet,
        lambda f: f.cluster.fold_version_set,
        CLUSTER | _OFFSETS,
        lambda t: t.version_set,
    ),
    Row(
        ev.StaticSettingsTold,
        lambda f: f.cluster.fold_settings_told,
        STATIC_SETTINGS,
        lambda t: t.lives,
    ),
    Row(ev.ClaimTaken, lambda f: f.state.claims.fold_taken, CLAIMS, lambda t: t.claim_taken),
    Row(
        ev.ClaimReleased, lambda f: f.state.claims.fold_released, CLAIMS, lambda t: t.claim_released
    ),
    Row(
        rev.TimelineOpened,
        lambda f: f.cluster.fold_timeline_opened,
        CLUSTER | TIMELINES | _LIFE | PRODUCER_IDS | _TOPIC | SWITCHES | LINK_GROUPS | TRANSACTIONS,
        lambda t: t.timeline_opened,
    ),
    Row(
        rev.FormerLivesFound,
        lambda f: f.cluster.fold_former_lives,
        GATEWAYS | TIMELINES,
        lambda t: t.former_lives,
    ),
    Row(
        rev.SalvageEnded,
        lambda f: f.cluster.fold_salvage_ended,
        TIMELINES | OBJECTS | PRODUCER_IDS,
        lambda t: t.salvage_ended,
    ),
    Row(
        ev.TopicCreated,
        lambda f: f.cluster.fold_topic_created,
        _TOPIC | _OFFSETS,
        lambda t: t.topic_begins,
    ),
    Row(
        ev.PartitionsAdded,
        lambda f: f.cluster.fold_partitions_added,
        _TOPIC | _OFFSETS,
        lambda t: t.partitions_added,
    ),
    Row(
        ev.TopicDeleted,
        lambda f: f.cluster.fold_topic_deleted,
        _TOPIC | OBJECTS | _OFFSETS | SWITCHES | TRANSACTIONS,
        lambda t: t.topic_deleted,
    ),
    Row(
        ev.ConfigsSet,
        lambda f: f.cluster.fold_configs_set,
        TOPICS | CONFIGS | NAME_CHANGES,
        lambda t: t.configs_set,
    ),
    Row(
        ev.WalCommitted, lambda f: f.runs.fold_wal_committed, _RUNS, lambda t: t.runs.wal_committed
    ),
    Row(
        ev.WalAbandoned,
        lambda f: f.runs.fold_wal_abandoned,
        OBJECTS,
        lambda t: t.runs.wal_abandoned,
    ),
    Row(
        ev.LogStartsMoved,
        lambda f: f.runs.fold_log_starts_moved,
        _RUNS,
        lambda t: t.runs.log_starts_moved,
    ),
    Row(
        ev.ObjectsCollected,
        lambda f: f.cluster.fold_collected,
        OBJECTS,
        lambda t: t.runs.objects_collected,
    ),
    Row(
        ev.SegmentsPublished,
        lambda f: f.runs.fold_segments_published,
        _RUNS,
        lambda t: t.runs.segments_published,
    ),
    Row(
        ev.PartitionsCleaned,
        lambda f: f.runs.fold_partitions_cleaned,
        PARTITIONS,
        lambda t: t.runs.partitions_cleaned,
    ),
    Row(pev.PipelineReported, lambda f: f.cluster.fold_pipeline_reported, PIPELINE_REPORTS),
    Row(ev.RunsSkipped, lambda f: f.runs.fold_skipped, _RUNS, lambda t: t.runs.runs_skipped),
    Row(ev.SkipsEnded, lambda f: f.runs.fold_skips_ended, _RUNS, lambda t: t.runs.skips_ended),
    Row(
        ev.ProducerIdsReserved,
        lambda f: f.cluster.fold_ids_reserved,
        PRODUCER_IDS,
        lambda t: t.ids_reserved,
    ),
    Row(ev.ProducersExpired, lambda f: f.cluster.fold_producers_expired, PRODUCER_IDS | PARTITIONS),
    Row(ev.Proposed, lambda f: f.cluster.fold_proposed, PROPOSALS, lambda t: t.proposed),
    Row(lev.LogMoveBegun, lambda f: f.cluster.fold_move_begun, LOG_MOVES, lambda t: t.move_begun),
    Row(lev.LogMoveOffered, lambda f: f.cluster.fold_move_offered, LOG_MOVES, lambda t: t.moves),
    Row(
        lev.LogMoveAnswered, lambda f: f.state.log_moves.fold_answered, LOG_MOVES, lambda t: t.moves
    ),
    Row(lev.LogMoved, lambda f: f.cluster.fold_moved, LOG_MOVES, lambda t: t.moved),
    Row(
        lev.LogMoveCancelled,
        lambda f: f.state.log_moves.fold_cancelled,
        LOG_MOVES,
        lambda t: t.move_ends,
    ),
    Row(gev.GroupChanged, lambda f: f.groups.fold_changed, _OFFSETS, lambda t: t.group_changed),
    Row(gev.OffsetsCommitted, lambda f: f.groups.fold_committed, _OFFSETS | TRANSACTIONS),
    Row(
        gev.OffsetsDeleted,
        lambda f: f.groups.fold_offsets_deleted,
        _OFFSETS | TRANSACTIONS,
        lambda t: t.offsets_deleted,
    ),
    Row(
        gev.GroupDeleted,
        lambda f: f.groups.fold_deleted,
        _OFFSETS | TRANSACTIONS | CLAIMS,
        lambda t: t.group_deleted,
    ),
    Row(
        tev.TransactionalIdInitialised,
        lambda f: f.transactions.fold_initialised,
        TRANSACTIONS,
        lambda t: t.transactions.initialised,
    ),
    Row(
        tev.TransactionGrew,
        lambda f: f.transactions.fold_grew,
        TRANSACTIONS,
        lambda t: t.transactions.grew,
    ),
    Row(
        tev.TransactionWritten,
        lambda f: f.transactions.fold_written,
        TRANSACTIONS | PARTITIONS,
        lambda t: t.transactions.written,
    ),
    Row(
        tev.OffsetsStaged,
        lambda f: f.transactions.fold_staged,
        TRANSACTIONS | GROUPS,
        lambda t: t.transactions.staged,
    ),
    Row(
        tev.TransactionEnded,
        lambda f: f.transactions.fold_ended,
        TRANSACTIONS | _OFFSETS,
        lambda t: t.transactions.ended,
    ),
    Row(
        tev.TransactionalIdsExpired,
        lambda f: f.transactions.fold_expired,
        TRANSACTIONS,
        lambda t: t.transactions.expired,
    ),
    *INLINED_ROWS,
    *LINK_ROWS,
    *SECURITY_ROWS,
)
