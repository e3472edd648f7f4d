"""The cluster state: the fold of the metadata log.

`apply` is the only door through which the state changes, live and at replay alike.  It decides
nothing.  An event that contradicts the state raises StateBroken and stops the gateway.

Log time rises only, never runs ahead of the median of the live gateways' last clocks, and rises by
no more than what passed on the clock of the entry's writer: so one wrong clock expires nothing, not
even once its gateway is the only one left (decision 3).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from ..events import cluster as ev
from ..events import log_moves as lev
from ..events import restores as rev
from ..events import security as sev
from ..events import transactions as tev
from ..events.entries import Entry
from ..events.metadata_versions import (
    EPOCHS,
    FIRST,
    NEWEST,
    OFFSETS_TOPIC_FILLED,
    SWITCHES,
    entry_formats,
    too_old,
)
from .broken import StateBroken, expect
from .frozen import FrozenState, split
from .group_folds import GroupFolds
from .long_values import LongValue
from .mirror_folds import MirrorFolds
from .name_changes import TOPIC_RESOURCE
from .offsets_topic import OFFSETS_TOPIC
from .run_folds import RunFolds
from .snapshot_head import decode_head, encode_head, is_wide
from .tables import StateTables
from .transaction_folds import TransactionFolds

# How far log time may rise by one entry, or by the clock of a gateway that begins alone, before it
# counts as a leap.
MAX_LEAP_MS = 3_600_000

_Fold = Callable[[Any], None]
# The errors of an event with an unknown number, or with one that does not fit its column.
_NOT_THERE = (LookupError, OverflowError, struct.error)


class ClusterState(StateTables):
    """See the module's head, and StateTables for what it holds."""

    def __init__(self, highest_version: int = NEWEST) -> None:
        super().__init__(highest_version)
        self._author = 0
        self._writer_clock_ms = 0
        self._writer_uptime_ms = -1
        self._transaction_folds: Final = TransactionFolds(self)
        self._group_folds: Final = GroupFolds(self, self._transaction_folds)
        self._folds: Final = self._by_type()

    def log_time_after(self, writer: int, clock_ms: int) -> int:
        """Return the log time that an entry with this writer and clock brings."""
        gateway = self.gateways.live.get(writer)
        if gateway is None:
            return self.log_time_ms
        passed_ms = min(max(clock_ms - gateway.clock_ms, 0), MAX_LEAP_MS)
        median_ms = self.gateways.median_clock_ms(writer, clock_ms)
        return max(self.log_time_ms, min(median_ms, self.log_time_ms + passed_ms))

    def apply(self, position: int, entry: Entry) -> None:
        """Fold one entry.

        Raises:
          StateBroken: naming the position and the event.
          ReleaseTooOld: this release cannot read the next entries.
        """
        if position != self.position + 1:
            raise StateBroken(_out_of_order(position, self.position))
        try:
            self.log_time_ms = self.log_time_after(entry.writer, entry.clock_ms)
            self.gateways.fold_clock(entry.writer, entry.clock_ms, entry.uptime_ms)
            self._author = entry.writer
            self._writer_clock_ms = entry.clock_ms
            self._writer_uptime_ms = entry.uptime_ms
            for event in entry.events:
                self._folds[type(event)](event)
        except StateBroken as error:
            raise StateBroken(f"metadata log entry {position}: {error}") from error
        except _NOT_THERE as error:
            raise StateBroken(f"metadata log entry {position}: {error!r}") from error
        self.position = position

    @property
    def entry_formats(self) -> range:
        """Return the formats that the next entry may have."""
        return entry_formats(self.metadata_version, self.highest_version)

    def _by_type(self) -> dict[type, _Fold]:
        """Return the fold of each type of event."""
        runs = RunFolds(self)
        transactions = self._transaction_folds
        mirrors = self._mirror_folds = MirrorFolds(self)
        return {
            ev.ClusterCreated: self._fold_cluster_created,
            ev.GatewayRegistered: self._fold_registered,
            ev.GatewayRenewed: self._fold_renewed,
            ev.GatewayDraining: self.gateways.fold_draining,
            ev.GatewayResumed: self.gateways.fold_resumed,
            ev.GatewayDrained: self.gateways.fold_drained,
            ev.GatewayExpired: self._fold_expired,
            ev.MetadataVersionSet: self._fold_version_set,
            ev.StaticSettingsTold: self._fold_settings_told,
            ev.ClaimTaken: self.claims.fold_taken,
            ev.ClaimReleased: self.claims.fold_released,
            rev.TimelineOpened: self._fold_timeline_opened,
            rev.FormerLivesFound: self._fold_former_lives,
            rev.SalvageEnded: self._fold_salvage_ended,
            ev.TopicCreated: self._fold_topic_created,
            ev.PartitionsAdded: self._fold_partitions_added,
            ev.TopicDeleted: self._fold_topic_deleted,
            ev.ConfigsSet: self._fold_configs_set,
            ev.WalCommitted: runs.fold_wal_committed,
            ev.WalAbandoned: runs.fold_wal_abandoned,
            ev.LogStartsMoved: runs.fold_log_starts_moved,
            ev.ObjectsCollected: lambda event: self.objects.fold_collected(event.numbers),
            ev.SegmentsPublished: runs.fold_segments_published,
            ev.PartitionsCleaned: runs.fold_partitions_cleaned,
            ev.PipelineReported: self._fold_pipeline_reported,
            ev.RunsSkipped: runs.fold_skipped,
            ev.SkipsEnded: runs.fold_skips_ended,
            ev.ProducerIdsReserved: self._fold_ids_reserved,
            ev.ProducersExpired: self._fold_producers_expired,
            ev.Proposed: self._fold_proposed,
            lev.LogMoveBegun: self._fold_move_begun,
            lev.LogMoveOffered: lambda event: self.log_moves.fold_offered(event, self.position + 1),
            lev.LogMoveAnswered: self.log_moves.fold_answered,
            lev.LogMoved: lambda event: self.log_moves.fold_moved(event, self.position + 1),
            lev.LogMoveCancelled: self.log_moves.fold_cancelled,
            **self._group_folds.by_type(),
            tev.TransactionalIdInitialised: transactions.fold_initialised,
            tev.TransactionGrew: transactions.fold_grew,
            tev.TransactionWritten: transactions.fold_written,
            tev.OffsetsStaged: transactions.fold_staged,
            tev.TransactionEnded: transactions.fold_ended,
            tev.TransactionalIdsExpired: transactions.fold_expired,
            **mirrors.by_type(),
            sev.AclsChanged: lambda event: self.acls.fold_changed(event, self.position + 1),
            sev.ScramCredentialSet: self.scram.fold_set,
            sev.ScramCredentialRemoved: self.scram.fold_removed,
            sev.ScramCredentialSealed: self.scram.fold_sealed,
            sev.ClientQuotasSet: self.quotas.fold_set,
            sev.DelegationTokenSet: self.tokens.fold_set,
            sev.DelegationTokensRemoved: self.tokens.fold_removed,
        }

    def _fold_version_set(self, event: ev.MetadataVersionSet) -> None:
        before = self.metadata_version
        expect(event.version > before, f"metadata.version falls to {event.version}")
        self._go_to_version(event.version)
        if before < OFFSETS_TOPIC_FILLED:
            self._group_folds.begin_offsets_topic()

    def _go_to_version(self, version: int) -> None:
        if version > self.highest_version:
            raise too_old(version, self.highest_version)
        self.metadata_version = version

    def _fold_proposed(self, event: ev.Proposed) -> None:
        """Renew its author's lease, as if the author had written an entry of its own."""
        expect(event.incarnation > 0, "a numbered proposal without an author")
        self._author = event.incarnation
        self.gateways.fold_asked(event.incarnation, event.clock_ms, event.uptime_ms)
        self.proposals.fold_proposed(event)

    def _fold_renewed(self, event: ev.GatewayRenewed) -> None:
        """Writing the entry was the renewal."""
        self.gateways.fold_renewed(self._author, event.highest_version)

    def _fold_move_begun(self, event: lev.LogMoveBegun) -> None:
        alive = self.gateways.is_live(event.incarnation)
        expect(alive, f"the mover {event.incarnation} is not live")
        self.log_moves.fold_begun(event)

    def _fold_cluster_created(self, event: ev.ClusterCreated) -> None:
        expect(not self.cluster_id, "a cluster is created once")
        self.cluster_id = event.cluster_id
        self.timeline = event.timeline
        self.gateways.lease_ms = event.lease_ms
        self.producer_ids.fold_begun(event.first_producer_id)

    def _fold_timeline_opened(self, event: rev.TimelineOpened) -> None:
        expect(event.timeline > self.timeline, f"timeline {event.timeline} after {self.timeline}")
        self.timelines.fold_opened(event.restore_id, self.timeline, self.gateways.homes)
        self.timelines.salvageable.update(self.gateways.live)
        self.gateways.fold_all_ended(event.first_incarnation)
        self.static_settings.end_all(self.log_time_ms)
        self.proposals.end_all()
        self.log_moves.forget()
        self.producer_ids.fold_skipped(event.first_producer_id)
        if self.metadata_version >= SWITCHES:
            self._mirror_folds.hold_links()
        if self.metadata_version >= EPOCHS:
            self._open_epochs(event.timeline)
        self._transaction_folds.timeline_opened()
        self.timeline = event.timeline

    def _open_epochs(self, timeline: int) -> None:
        """Later records of any partition belong to another history than the one that clients may
        know.  No two timelines share an epoch, even if an older release opened some without one.
        """
        self.keep_partitions([each.number for each in self.partitions.values()])
        mirrored = {
            number
            for topic in self.topics.by_id.values()
            if topic.link
            for number in topic.partition_numbers
        }
        self.partitions.fold_epochs_opened(timeline - self.timeline, timeline - 1, mirrored)

    def _fold_settings_told(self, event: ev.StaticSettingsTold) -> None:
        gateway = self.gateways.live.get(event.incarnation)
        expect(gateway is not None, f"settings of incarnation {event.incarnation}, which ended")
        assert gateway is not None
        self.static_settings.fold_told(gateway.node_id, event.settings, self.settled_time_ms)

    def _fold_former_lives(self, event: rev.FormerLivesFound) -> None:
        self._expect_restore(event.restore_id)
        for life in event.lives:
            self.gateways.fold_found(life.incarnation, life.node_id, life.zone)
            self.timelines.fold_found(life.incarnation, life.timeline)

    def _fold_salvage_ended(self, event: rev.SalvageEnded) -> None:
        self._expect_restore(event.restore_id)
        for incarnation in self.timelines.salvageable:
            self.objects.end_incarnation(incarnation)
        self.timelines.fold_ended()
        self.producer_ids.fold_skipped(event.first_producer_id)

    def _expect_restore(self, restore_id: str) -> None:
        expect(restore_id == self.timelines.restore_id, f"an entry of another restore {restore_id}")

    def _fold_registered(self, event: ev.GatewayRegistered) -> None:
        # If it registers through another gateway, that gateway's uptime does not count.
        uptime_ms = self._writer_uptime_ms if self._author == 0 else -1
        self.gateways.fold_registered(event, self._writer_clock_ms, uptime_ms)
        # A pipeline driver, perhaps a dead one, confirms no clock, and sets no time by itself.
        if [each.incarnation for each in self.gateways.brokers()] == [event.incarnation]:
            self._trust_clock(self._writer_clock_ms)
            self.static_settings.pass_over(self.log_time_ms)
        self.static_settings.begin(event.node_id)
        if event.supersedes:
            self.claims.inherit(event.supersedes, event.incarnation)
            self.objects.end_incarnation(event.supersedes)
            self.proposals.end(event.supersedes)
            self.log_moves.end(event.supersedes)

    def _trust_clock(self, clock_ms: int) -> None:
        """No other gateway can confirm the clock: begin with it, but let nothing expire yet."""
        if clock_ms - self.log_time_ms > MAX_LEAP_MS and self.log_time_ms:
            self.expiry_resumes_at_ms = clock_ms + MAX_LEAP_MS
        self.log_time_ms = max(self.log_time_ms, clock_ms)

    def _fold_expired(self, event: ev.GatewayExpired) -> None:
        self.gateways.fold_expired(event)
        self.static_settings.end(self.gateways.homes[event.incarnation][0], self.log_time_ms)
        self.objects.end_incarnation(event.incarnation)
        self.proposals.end(event.incarnation)
        self.log_moves.end(event.incarnation)

    def _fold_topic_created(self, event: ev.TopicCreated) -> None:
        numbers = self.partitions.add(event.topic_id, 0, event.partition_count)
        self.topics.fold_created(event, numbers)
        self._note_change(TOPIC_RESOURCE, event.name)
        if event.name == OFFSETS_TOPIC:
            self._group_folds.begin_offsets_topic()

    def _fold_partitions_added(self, event: ev.PartitionsAdded) -> None:
        topic = self.topics.get(event.topic_id)
        present = len(topic.partition_numbers)
        expect(event.partition_count > present, f"{event.partition_count} is not more partitions")
        add = self.partitions.add_without_epochs if topic.link else self.partitions.add
        added = add(event.topic_id, present, event.partition_count - present)
        self.topics.fold_grown(event.topic_id, added)
        self._note_change(TOPIC_RESOURCE, topic.name)
        if topic.name == OFFSETS_TOPIC:
            self._group_folds.begin_offsets_topic()

    def _fold_topic_deleted(self, event: ev.TopicDeleted) -> None:
        topic = self.topics.fold_deleted(event)
        self._note_change(TOPIC_RESOURCE, topic.name)
        self.keep_partitions(topic.partition_numbers)
        self._group_folds.topic_deleted(topic)
        for number in topic.partition_numbers:
            self.touched.add(number)
            partition = self.partitions.remove(number)
            for row in partition.rows():
                if not row.is_marker:
                    self.objects.release(row.object_number, self.log_time_ms)
        self.switches.forget_topic(event.topic_id)
        self._transaction_folds.topic_deleted(event.topic_id, topic.partition_numbers)

    def _note_change(self, resource_type: int, name: str) -> None:
        self.name_changes.note(resource_type, name, self.position + 1)

    def _fold_configs_set(self, event: ev.ConfigsSet) -> None:
        self._note_change(event.resource_type, event.resource_name)
        if event.resource_type == TOPIC_RESOURCE:
            self.topics.fold_configs(event.resource_name, event.configs)
        else:
            self.configs.fold_configs_set(event)

    def _fold_pipeline_reported(self, event: ev.PipelineReported) -> None:
        self.pipeline_reports.fold_reported(event, self.log_time_ms)

    def _fold_ids_reserved(self, event: ev.ProducerIdsReserved) -> None:
        self.producer_ids.fold_reserved(event, self.log_time_ms)

    def _fold_producers_expired(self, event: ev.ProducersExpired) -> None:
        self.producer_ids.fold_expired(event.before_ms)
        self.keep_partitions(each.number for each in self.partitions.values() if each.producers)
        for partition in self.partitions.values():
            partition.expire_producers(event.before_ms)

    @contextmanager
    def frozen(self, *, as_copy: bool = False) -> Generator[FrozenState]:
        """Return the present state, to be encoded in pieces while the live state changes.  as_copy:
        for a log that is being copied from this one.
        """
        with self.topics.frozen() as topics:
            frozen = self._frozen(encode_head(self, topics, as_copy=as_copy))
            self.frozen_states.append(frozen)
            try:
                yield frozen
            finally:
                self.frozen_states.remove(frozen)

    def _frozen(self, head: LongValue) -> FrozenState:
        partitions = self.partitions.frozen(is_wide=is_wide(self))
        return FrozenState(
            self.position,
            head,
            partitions,
            self.groups.frozen(),
            self.transactions.frozen(),
            self.acls.frozen(),
            *self.scram.frozen(),
            self.quotas.frozen(),
            self.tokens.frozen(),
            self.offsets_topic.frozen(),
        )

    def encode(self) -> bytes:
        """Return the whole state; equal states give equal bytes."""
        with self.frozen() as frozen:
            return b"".join(frozen.pieces())

    @classmethod
    def decode(cls, data: bytes, highest_version: int = NEWEST) -> ClusterState:
        """Return the state that encode() was called on.

        Raises:
          StateBroken, ReleaseTooOld: a snapshot of another release.
        """
        state = cls(highest_version)
        pieces = split(data)
        expect(bool(data), "a snapshot that is empty")
        head = next(pieces)
        # Check the version first: a newer release's snapshot must not be reported as damage.
        state._go_to_version(head.get("metadata_version", FIRST))
        decode_head(state, head)
        state.name_changes.begin_at(state.position)
        state.acls.changed_at = state.position
        tombstones: list[Any] = []
        tables: dict[str, Callable[[list[Any]], None]] = {
            "partitions": state.partitions.decode,
            "groups": state.groups.decode,
            "transactions": state.transactions.decode,
            "acls": state.acls.decode,
            "scram": state.scram.decode,
            "scram_sealed": state.scram.decode_sealed,
            "quotas": state.quotas.decode,
            "tokens": state.tokens.decode,
            "offsets_tombstones": tombstones.extend,
        }
        for name, rows in pieces:
            expect(name in tables, f"a snapshot with a table {name}")
            tables[name](rows)
        state.offsets_topic.decode(state.metadata_version, tombstones)
        return state


def _out_of_order(position: int, last: int) -> str:
    return (
        f"the log gave entry {position} after {last}, out of order, so it cannot be used: check it"
        " with `tidegate log verify URL`, on an empty one of its kind, or restore the log with"
        " `tidegate log restore`"
    )
