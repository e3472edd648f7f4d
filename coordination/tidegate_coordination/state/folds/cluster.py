"""Folds of the cluster itself: its level, timelines, gateways, topics and settings."""

from __future__ import annotations

from typing import Final

from ...events import cluster as ev
from ...events import log_moves as lev
from ...events import pipeline as pev
from ...events import restores as rev
from ...events import security as sev
from ...events.metadata_versions import EPOCHS, OFFSETS_TOPIC_FILLED, SWITCHES, too_old
from ..broken import expect
from ..name_changes import TOPIC_RESOURCE
from ..offsets_topic import OFFSETS_TOPIC
from ..tables import StateTables
from .groups import GroupFolds
from .mirrors import MirrorFolds
from .transactions import TransactionFolds

# How far log time may rise by one entry, or by the clock of a gateway that begins alone, without
# counting as a leap.
MAX_LEAP_MS: Final = 3_600_000


def go_to_version(state: StateTables, version: int) -> None:
    """Raise the cluster to a metadata.version.

    Raises:
      ReleaseTooOld: this release does not read it.
    """
    if version > state.highest_version:
        raise too_old(version, state.highest_version)
    state.metadata_version = version


class ClusterFolds:
    """See the module's head.

    author: the author of the event that is being folded. writer_clock_ms, writer_uptime_ms: the
    clocks of its entry.
    """

    def __init__(
        self,
        state: StateTables,
        groups: GroupFolds,
        transactions: TransactionFolds,
        mirrors: MirrorFolds,
    ) -> None:
        self._state: Final = state
        self._group_folds: Final = groups
        self._transaction_folds: Final = transactions
        self._mirror_folds: Final = mirrors
        self.author = 0
        self.writer_clock_ms = 0
        self.writer_uptime_ms = -1

    def fold_version_set(self, event: ev.MetadataVersionSet) -> None:
        """The cluster has another metadata.version."""
        before = self._state.metadata_version
        expect(event.version > before, f"metadata.version falls to {event.version}")
        go_to_version(self._state, event.version)
        if before < OFFSETS_TOPIC_FILLED:
            self._group_folds.begin_offsets_topic()

    def fold_proposed(self, event: ev.Proposed) -> None:
        """Renew the author's lease, as if the author had appended an entry itself."""
        expect(event.incarnation > 0, "a numbered proposal without an author")
        self.author = event.incarnation
        self._state.gateways.fold_asked(event.incarnation, event.clock_ms, event.uptime_ms)
        self._state.proposals.fold_proposed(event)

    def fold_renewed(self, event: ev.GatewayRenewed) -> None:
        """The entry itself renews the lease, so only the version is noted."""
        self._state.gateways.fold_renewed(self.author, event.highest_version)

    def fold_move_begun(self, event: lev.LogMoveBegun) -> None:
        """A live gateway copies the log."""
        alive = self._state.gateways.is_live(event.incarnation)
        expect(alive, f"the mover {event.incarnation} is not live")
        self._state.log_moves.fold_begun(event)

    def fold_created(self, event: ev.ClusterCreated) -> None:
        """The cluster exists."""
        expect(not self._state.cluster_id, "a cluster is created once")
        self._state.cluster_id = event.cluster_id
        self._state.timeline = event.timeline
        self._state.gateways.lease_ms = event.lease_ms
        self._state.producer_ids.fold_begun(event.first_producer_id)

    def fold_timeline_opened(self, event: rev.TimelineOpened) -> None:
        """The log was restored: all incarnations ended."""
        expect(
            event.timeline > self._state.timeline,
            f"timeline {event.timeline} after {self._state.timeline}",
        )
        self._state.timelines.fold_opened(
            event.restore_id, self._state.timeline, self._state.gateways.homes
        )
        self._state.timelines.salvageable.update(self._state.gateways.live)
        self._state.gateways.fold_all_ended(event.first_incarnation)
        self._state.static_settings.end_all(self._state.log_time_ms)
        self._state.proposals.end_all()
        self._state.log_moves.forget()
        self._state.producer_ids.fold_skipped(event.first_producer_id)
        if self._state.metadata_version >= SWITCHES:
            self._mirror_folds.hold_links()
        if self._state.metadata_version >= EPOCHS:
            self._open_epochs(event.timeline)
        self._transaction_folds.timeline_opened()
        self._state.timeline = event.timeline

    def _open_epochs(self, timeline: int) -> None:
        """Begin a leader epoch in all partitions: clients may have read other later records.

        No two timelines share an epoch, even if an older release opened some without one.
        """
        self._state.keep_partitions([each.number for each in self._state.partitions.values()])
        mirrored = {
            number
            for topic in self._state.topics.by_id.values()
            if topic.link
            for number in topic.partition_numbers
        }
        self._state.partitions.fold_epochs_opened(
            timeline - self._state.timeline, timeline - 1, mirrored
        )

    def fold_settings_told(self, event: ev.StaticSettingsTold) -> None:
        """A gateway has told its static settings."""
        gateway = self._state.gateways.live.get(event.incarnation)
        expect(gateway is not None, f"settings of incarnation {event.incarnation}, which ended")
        assert gateway is not None
        self._state.static_settings.fold_told(
            gateway.node_id, event.settings, self._state.settled_time_ms
        )

    def fold_former_lives(self, event: rev.FormerLivesFound) -> None:
        """A restore found incarnations that the log had lost."""
        self._expect_restore(event.restore_id)
        for life in event.lives:
            self._state.gateways.fold_found(life.incarnation, life.node_id, life.zone)
            self._state.timelines.fold_found(life.incarnation, life.timeline)

    def fold_salvage_ended(self, event: rev.SalvageEnded) -> None:
        """A restore is complete."""
        self._expect_restore(event.restore_id)
        for incarnation in self._state.timelines.salvageable:
            self._state.objects.end_incarnation(incarnation)
        self._state.timelines.fold_ended()
        self._state.producer_ids.fold_skipped(event.first_producer_id)

    def _expect_restore(self, restore_id: str) -> None:
        expect(
            restore_id == self._state.timelines.restore_id,
            f"an entry of another restore {restore_id}",
        )

    def fold_registered(self, event: ev.GatewayRegistered) -> None:
        """An incarnation begins."""
        # If the gateway registers through another one, the other's uptime does not count.
        uptime_ms = self.writer_uptime_ms if self.author == 0 else -1
        self._state.gateways.fold_registered(event, self.writer_clock_ms, uptime_ms)
        # Pipeline drivers do not count here: a driver may be dead, and its clock confirms no other.
        if [each.incarnation for each in self._state.gateways.brokers()] == [event.incarnation]:
            self._trust_clock(self.writer_clock_ms)
            self._state.static_settings.pass_over(self._state.log_time_ms)
        self._state.static_settings.begin(event.node_id)
        if event.supersedes:
            self._state.claims.inherit(event.supersedes, event.incarnation)
            self._state.objects.end_incarnation(event.supersedes)
            self._state.proposals.end(event.supersedes)
            self._state.log_moves.end(event.supersedes)

    def _trust_clock(self, clock_ms: int) -> None:
        """No other gateway can confirm the clock: begin with it, but let nothing expire yet."""
        if clock_ms - self._state.log_time_ms > MAX_LEAP_MS and self._state.log_time_ms:
            self._state.expiry_resumes_at_ms = clock_ms + MAX_LEAP_MS
        self._state.log_time_ms = max(self._state.log_time_ms, clock_ms)

    def fold_expired(self, event: ev.GatewayExpired) -> None:
        """An incarnation ended."""
        self._state.gateways.fold_expired(event)
        self._state.static_settings.end(
            self._state.gateways.homes[event.incarnation][0], self._state.log_time_ms
        )
        self._state.objects.end_incarnation(event.incarnation)
        self._state.proposals.end(event.incarnation)
        self._state.log_moves.end(event.incarnation)

    def fold_topic_created(self, event: ev.TopicCreated) -> None:
        """There is a new topic."""
        numbers = self._state.partitions.add(event.topic_id, 0, event.partition_count)
        self._state.topics.fold_created(event, numbers)
        self._note_change(TOPIC_RESOURCE, event.name)
        if event.name == OFFSETS_TOPIC:
            self._group_folds.begin_offsets_topic()

    def fold_partitions_added(self, event: ev.PartitionsAdded) -> None:
        """A topic has more partitions."""
        topic = self._state.topics.get(event.topic_id)
        present = len(topic.partition_numbers)
        expect(event.partition_count > present, f"{event.partition_count} is not more partitions")
        add = (
            self._state.partitions.add_without_epochs if topic.link else self._state.partitions.add
        )
        added = add(event.topic_id, present, event.partition_count - present)
        self._state.topics.fold_grown(event.topic_id, added)
        self._note_change(TOPIC_RESOURCE, topic.name)
        if topic.name == OFFSETS_TOPIC:
            self._group_folds.begin_offsets_topic()

    def fold_topic_deleted(self, event: ev.TopicDeleted) -> None:
        """A topic is deleted, with everything that belongs to it."""
        topic = self._state.topics.fold_deleted(event)
        self._note_change(TOPIC_RESOURCE, topic.name)
        self._state.keep_partitions(topic.partition_numbers)
        self._group_folds.topic_deleted(topic)
        for number in topic.partition_numbers:
            self._state.touched.add(number)
            partition = self._state.partitions.remove(number)
            for row in partition.rows():
                if not row.is_marker:
                    self._state.objects.release(row.object_number, self._state.log_time_ms)
        self._state.switches.forget_topic(topic.topic_id, topic.shown_id)
        self._transaction_folds.topic_deleted(event.topic_id, topic.partition_numbers)

    def _note_change(self, resource_type: int, name: str) -> None:
        self._state.name_changes.note(resource_type, name, self._state.position + 1)

    def fold_configs_set(self, event: ev.ConfigsSet) -> None:
        """A resource has other configs."""
        self._note_change(event.resource_type, event.resource_name)
        if event.resource_type == TOPIC_RESOURCE:
            self._state.topics.fold_configs(event.resource_name, event.configs)
        else:
            self._state.configs.fold_configs_set(event)

    def fold_ids_reserved(self, event: ev.ProducerIdsReserved) -> None:
        """A gateway gives out a block of producer ids."""
        self._state.producer_ids.fold_reserved(event, self._state.log_time_ms)

    def fold_producers_expired(self, event: ev.ProducersExpired) -> None:
        """Old producer states are removed."""
        self._state.producer_ids.fold_expired(event.before_ms)
        self._state.keep_partitions(
            each.number for each in self._state.partitions.values() if each.producers
        )
        for partition in self._state.partitions.values():
            partition.expire_producers(event.before_ms)

    def fold_pipeline_reported(self, event: pev.PipelineReported) -> None:
        """A driver has reported its work."""
        self._state.pipeline_reports.fold_reported(event, self._state.log_time_ms)

    def fold_move_offered(self, event: lev.LogMoveOffered) -> None:
        """The copy of the log is ready for a check."""
        self._state.log_moves.fold_offered(event, self._state.position + 1)

    def fold_moved(self, event: lev.LogMoved) -> None:
        """The log ends here."""
        self._state.log_moves.fold_moved(event, self._state.position + 1)

    def fold_acls_changed(self, event: sev.AclsChanged) -> None:
        """There are other ACLs."""
        self._state.acls.fold_changed(event, self._state.position + 1)

    def fold_collected(self, event: ev.ObjectsCollected) -> None:
        """Dead objects are forgotten."""
        self._state.objects.fold_collected(event.numbers)
