"""Checks that events can be folded, before they are written: a bad entry stops every replica.

A rule should never decide on such an event, nor on one above the cluster's level.  If a rule does
so by mistake, only its own proposal fails, and the cluster does not stop (decision 24).

One Trial belongs to one entry under construction.  It reads the state, which it does not change,
and records the changes by earlier events of the entry that it must respect.  Scopes keep all but
WAL commits from reading earlier changes (../rules/proposal.py), so these are few: where partitions
end, and facts that may occur only once.

It is no second fold: it knows the fold's expectations, and the bounds of its columns.  Tests
compare the two: events that pass here can be folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from ...events import cluster as ev
from ...events import groups as gev
from ...events import links as kev
from ...events import log_moves as lev
from ...events import restores as rev
from ...events import security as sev
from ...events import transactions as tev
from ..broken import StateBroken, expect, expect_left
from ..cluster import ClusterState
from ..columns import MAX_UINT32, check_numbers
from ..records.producer_ids import FIRST_IDS
from ..switches import Fence, Switched
from ..topics import Topic, collision_key
from .link_groups import LinkGroupTrial
from .runs import RunTrial
from .security import SecurityTrial
from .transactions import TransactionTrial

_TOPIC_RESOURCE: Final = 2
# A bound of one event: above any rule's limit, and below a replica's.
MAX_PARTITIONS: Final = 1_000_000


class Trial:
    """See the module's head."""

    def __init__(self, state: ClusterState) -> None:
        self._state: Final = state
        self._runs: Final = RunTrial(state)
        self._transactions: Final = TransactionTrial(state, self._runs)
        self._once: Final[set[tuple[str, object]]] = set()
        self._link_groups: Final = LinkGroupTrial(state, self._once)
        self._security: Final = SecurityTrial(state)
        self._registered = 0
        self._partitions = 0
        self._acknowledged: Final[dict[int, int]] = {}

    def check(self, events: Iterable[ev.Event]) -> None:
        """Check that the events can be folded after those of earlier calls.

        Raises:
          StateBroken, LookupError, struct.error, TypeError: they cannot.  Do not use the trial
            again: the changes that the call has recorded are not undone.
        """
        for event in events:
            if isinstance(event, ev.WalCommitted):  # often the only event, and a large one
                self._runs.wal_committed(event)
            else:
                self._check(event)

    def _check(self, event: ev.Event) -> None:
        kind = type(event)
        expect(kind in self.checks, f"no trial knows {kind.__name__}: see state/trial.py")
        check_numbers(event)
        expect(getattr(event, "tenant", 0) == 0, "there are no tenants yet")
        check = self.checks[kind]
        if check is not None:
            check(event)

    @cached_property
    def checks(self) -> Mapping[type[ev.Event], Callable[[Any], None] | None]:
        """Return the check of each type of event."""
        runs, transactions, groups = self._runs, self._transactions, self._link_groups
        security = self._security
        return {
            ev.ClusterCreated: self._cluster_created,
            ev.GatewayRegistered: self._registered_one,
            ev.GatewayRenewed: None,
            ev.GatewayDraining: lambda event: self._lives(event.incarnation),
            ev.GatewayResumed: self._resumed,
            ev.GatewayDrained: lambda event: self._drains(event.incarnation),
            ev.GatewayExpired: lambda event: self._ends(event.incarnation),
            ev.MetadataVersionSet: self._version_set,
            ev.StaticSettingsTold: lambda event: self._lives(event.incarnation),
            ev.ClaimTaken: self._claim_taken,
            ev.ClaimReleased: self._claim_released,
            rev.TimelineOpened: self._timeline_opened,
            rev.FormerLivesFound: self._former_lives,
            rev.SalvageEnded: self._salvage_ended,
            ev.TopicCreated: self._topic_created,
            ev.PartitionsAdded: self._partitions_added,
            ev.TopicDeleted: self._topic_deleted,
            ev.ConfigsSet: self._configs_set,
            ev.WalCommitted: runs.wal_committed,
            ev.WalAbandoned: runs.wal_abandoned,
            ev.LogStartsMoved: runs.log_starts_moved,
            ev.ObjectsCollected: runs.objects_collected,
            ev.SegmentsPublished: runs.segments_published,
            ev.PartitionsCleaned: runs.partitions_cleaned,
            ev.PipelineReported: None,
            ev.RunsSkipped: runs.runs_skipped,
            ev.SkipsEnded: runs.skips_ended,
            ev.ProducerIdsReserved: self._ids_reserved,
            ev.ProducersExpired: None,
            ev.Proposed: self._proposed,
            lev.LogMoveBegun: self._move_begun,
            lev.LogMoveOffered: self._moves,
            lev.LogMoveAnswered: self._moves,
            lev.LogMoved: self._moved,
            lev.LogMoveCancelled: self._move_ends,
            gev.GroupChanged: self._group_changed,
            gev.OffsetsCommitted: None,
            gev.OffsetsDeleted: self._offsets_deleted,
            gev.GroupDeleted: self._group_deleted,
            tev.TransactionalIdInitialised: transactions.initialised,
            tev.TransactionGrew: transactions.grew,
            tev.TransactionWritten: transactions.written,
            tev.OffsetsStaged: transactions.staged,
            tev.TransactionEnded: transactions.ended,
            tev.TransactionalIdsExpired: transactions.expired,
            kev.LinkSet: None,
            kev.LinkRemoved: self._link_removed,
            kev.TopicsLinked: self._topics_linked,
            kev.MirrorsPlaced: runs.mirrors_placed,
            kev.RunsMirrored: runs.mirrored,
            kev.TopicsFenced: self._topics_fenced,
            kev.FenceReached: self._fence_reached,
            kev.FenceLifted: self._fence_lifted,
            kev.SourceReopened: self._source_reopened,
            kev.TopicsSwitched: self._topics_switched,
            kev.SwitchesFinished: self._switches_finished,
            kev.TopicsReversing: self._topics_reversing,
            kev.ReverseReached: self._reverse_reached,
            kev.ReverseEnded: self._reverse_ended,
            kev.ReturnFenced: self._return_fenced,
            kev.TopicsReturned: self._topics_returned,
            kev.GroupsFenced: groups.fenced,
            kev.GroupFenceReached: groups.reached,
            kev.GroupsUnfenced: groups.ended,
            kev.GroupsMoved: groups.ended,
            sev.AclsChanged: security.acls_changed,
            sev.ScramCredentialSet: security.scram_set,
            sev.ScramCredentialRemoved: security.scram_removed,
            sev.ScramCredentialSealed: security.scram_set,
            sev.ClientQuotasSet: security.quotas_set,
            sev.DelegationTokenSet: security.token_set,
            sev.DelegationTokensRemoved: security.tokens_removed,
        }

    def _only_once(self, what: str, key: object) -> None:
        expect((what, key) not in self._once, f"{what} {key!r} twice in an entry")
        self._once.add((what, key))

    # -- the cluster and its gateways ------------------------------------------------------------

    def _cluster_created(self, event: ev.ClusterCreated) -> None:
        expect(not self._state.cluster_id, "a cluster is created once")
        expect(event.first_producer_id in FIRST_IDS, f"producer ids from {event.first_producer_id}")
        self._only_once("cluster", "")

    def _version_set(self, event: ev.MetadataVersionSet) -> None:
        state = self._state
        bounds = range(state.metadata_version + 1, state.highest_version + 1)
        expect(event.version in bounds, f"metadata.version {event.version} is not one of {bounds}")
        self._only_once("metadata.version", "")

    def _registered_one(self, event: ev.GatewayRegistered) -> None:
        gateways = self._state.gateways
        following = gateways.next_incarnation + self._registered
        expect(event.incarnation == following, f"incarnation {event.incarnation}")
        expect_left(following < MAX_UINT32, "the numbers of incarnations have run out")
        self._registered += 1
        if event.supersedes:
            self._ends(event.supersedes)

    def _lives(self, incarnation: int) -> None:
        lives = self._state.gateways.is_live(incarnation)
        has_ended = ("the end of incarnation", incarnation) in self._once
        expect(lives and not has_ended, f"incarnation {incarnation} is not live")

    def _resumed(self, event: ev.GatewayResumed) -> None:
        self._drains(event.incarnation)
        self._only_once("return", event.incarnation)

    def _drains(self, incarnation: int) -> None:
        self._lives(incarnation)
        expect(self._state.gateways.live[incarnation].draining, f"{incarnation} is not draining")

    def _ends(self, incarnation: int) -> None:
        self._lives(incarnation)
        self._only_once("the end of incarnation", incarnation)

    def _claim_taken(self, event: ev.ClaimTaken) -> None:
        last = self._state.claims.get(event.name)
        epoch = last.epoch if last is not None else 0
        expect(event.epoch == epoch + 1, f"claim {event.name}: epoch {event.epoch}")
        self._only_once("claim", event.name)

    def _claim_released(self, event: ev.ClaimReleased) -> None:
        known = self._state.claims.get(event.name) is not None
        known = known and ("claim", event.name) not in self._once
        expect(known, f"claim {event.name} released, but unknown")

    def _timeline_opened(self, event: rev.TimelineOpened) -> None:
        state = self._state
        expect(event.timeline > state.timeline, f"timeline {event.timeline}")
        later = event.first_incarnation >= state.gateways.next_incarnation
        expect(later, f"incarnation {event.first_incarnation} again")
        self._owns_ids(event.first_producer_id)
        self._only_once("timeline", "")

    def _former_lives(self, event: rev.FormerLivesFound) -> None:
        self._restores(event.restore_id)
        gateways = self._state.gateways
        for life in event.lives:
            new = life.incarnation not in gateways.homes
            past = life.incarnation < gateways.next_incarnation
            expect(new and past, f"incarnation {life.incarnation} is no former life")
            self._only_once("former life", life.incarnation)

    def _salvage_ended(self, event: rev.SalvageEnded) -> None:
        self._restores(event.restore_id)
        self._owns_ids(event.first_producer_id)

    def _owns_ids(self, first: int) -> None:
        """Check that the next id is the cluster's; an id below its range changes nothing."""
        is_own = first < self._state.producer_ids.own.stop
        expect(is_own, f"producer ids from {first}, which are not the cluster's")

    def _restores(self, restore_id: str) -> None:
        timelines = self._state.timelines
        is_it = timelines.is_restoring and restore_id == timelines.restore_id
        expect(is_it, f"an entry of another restore {restore_id}")

    def _proposed(self, event: ev.Proposed) -> None:
        author, number = event.incarnation, event.number
        expect(author > 0, "a numbered proposal without an author")
        self._lives(author)
        proposals = self._state.proposals
        is_over = proposals.is_acknowledged(author, number)
        is_over = is_over or number <= self._acknowledged.get(author, 0)
        is_decided = proposals.answer(author, number) is not None
        expect(not is_over and not is_decided, f"proposal {number} of {author} again")
        self._only_once("proposal", (author, number))
        self._acknowledged[author] = max(event.acknowledged, self._acknowledged.get(author, 0))

    def _ids_reserved(self, event: ev.ProducerIdsReserved) -> None:
        expect(event.first == self._state.producer_ids.next_id, f"producer ids from {event.first}")
        expect(event.count > 0, f"{event.count} producer ids")
        left = self._state.producer_ids.own.stop - event.first
        expect_left(event.count < left, "the cluster's producer ids have run out")
        self._only_once("producer ids", event.first)

    # -- topics, groups, log moves ---------------------------------------------------------------

    def _topic_created(self, event: ev.TopicCreated) -> None:
        self._topic_begins(event.topic_id, event.name, event.partition_count)

    def _topic_begins(self, topic_id: bytes, name: str, partition_count: int) -> None:
        topics, key = self._state.topics, collision_key(name)
        expect(topic_id not in topics.by_id, f"topic id of {name} is taken")
        expect(key not in topics.by_collision_key, f"topic name {name} is taken")
        self._only_once("topic id", topic_id)
        self._only_once("topic name", key)
        self._add_partitions(partition_count)

    def _topics_linked(self, event: kev.TopicsLinked) -> None:
        self._state.links.expect_link(event.link)
        expect(("end of link", event.link) not in self._once, f"link {event.link} is removed")
        for each in event.topics:
            self._topic_begins(each.topic_id, each.name, each.partition_count)

    def _link_removed(self, event: kev.LinkRemoved) -> None:
        self._state.links.expect_link(event.name)
        for topic in self._state.links.topics_of(event.name):
            expect(("end of topic", topic.topic_id) in self._once, f"a link with {topic.name}")
        self._only_once("end of link", event.name)
        for fence in self._state.switches.of_link(event.name):
            self._only_once("end of fence", fence.number)

    def _topics_fenced(self, event: kev.TopicsFenced) -> None:
        switches = self._state.switches
        self._state.links.expect_link(event.link)
        expect(event.fence == switches.next_fence, f"fence {event.fence}")
        self._only_once("new fence", event.fence)
        for each in event.topics:
            self._only_once("fence of topic", each.topic_id)
            topic = self._topic(each.topic_id)
            expect(topic.link == event.link, f"{topic.name} is not of link {event.link}")
            expect(switches.fence_of(each.topic_id) is None, f"{topic.name} has a fence")
        if event.unit:
            self._link_groups.joined(event.unit)

    def _fence_reached(self, event: kev.FenceReached) -> None:
        self._fence(event.fence)

    def _fence_lifted(self, event: kev.FenceLifted) -> None:
        self._fence_goes_on(event.fence)

    def _fence(self, number: int) -> Fence:
        expect(("end of fence", number) not in self._once, f"fence {number} has ended")
        expect(number in self._state.switches.fences, f"unknown fence {number}")
        return self._state.switches.fences[number]

    def _fence_goes_on(self, number: int) -> Fence:
        """Return an open fence, which ends in this entry."""
        fence = self._fence(number)
        expect(not fence.lifted, f"fence {number} is lifted")
        self._only_once("end of fence", number)
        return fence

    def _source_reopened(self, event: kev.SourceReopened) -> None:
        expect(bool(self._fence(event.fence).lifted), f"fence {event.fence} is not lifted")
        self._only_once("end of fence", event.fence)

    def _topics_switched(self, event: kev.TopicsSwitched) -> None:
        fence = self._fence_goes_on(event.fence)
        expect(not fence.is_back, f"fence {event.fence} returns")
        self._change_sides(fence, event.epochs)

    def _switches_finished(self, event: kev.SwitchesFinished) -> None:
        for topic_id in event.topic_ids:
            switches = self._state.switches
            known = topic_id in switches.switched and switches.fence_of(topic_id) is None
            expect(known, f"topic {topic_id.hex()} was not switched, or returns")
            # It ends the reverse of the topic, too.
            self._only_once("reverse of topic", topic_id)
            reached = (("reverse of partition", each) for each in self._numbers_if_any(topic_id))
            expect(not self._once.intersection(reached), "it went on in this entry")

    def _topics_reversing(self, event: kev.TopicsReversing) -> None:
        self._state.links.expect_link(event.link)
        for topic_id in event.topic_ids:
            self._own(topic_id)
            self._only_once("reverse of topic", topic_id)

    def _own(self, topic_id: bytes) -> Switched:
        """Return what is known of a switched topic that no other event of the entry changes."""
        self._topic(topic_id)
        switches = self._state.switches
        expect(topic_id in switches.switched, f"topic {topic_id.hex()} was not switched")
        expect(switches.fence_of(topic_id) is None, f"topic {topic_id.hex()} has a fence")
        return switches.switched[topic_id]

    def _reverse_reached(self, event: kev.ReverseReached) -> None:
        for place in event.places:
            partition = self._state.partitions.get(place.partition)
            expect(partition is not None, f"unknown partition {place.partition}")
            assert partition is not None
            self._topic(partition.topic_id)
            switched = self._state.switches.switched.get(partition.topic_id)
            reached = switched.reached if switched is not None else ()
            expect(partition.index < len(reached), f"partition {place.partition} reverses not")
            is_next = reached[partition.index] <= place.offset <= partition.next_offset
            expect(is_next, f"partition {place.partition} reached {place.offset}")
            self._only_once("reverse of partition", place.partition)
            expect(("reverse of topic", partition.topic_id) not in self._once, "it has ended")

    def _reverse_ended(self, event: kev.ReverseEnded) -> None:
        for topic_id in event.topic_ids:
            self._own(topic_id)
            self._only_once("reverse of topic", topic_id)
            reached = (("reverse of partition", each) for each in self._numbers(topic_id))
            expect(not self._once.intersection(reached), "it went on in this entry")

    def _numbers_if_any(self, topic_id: bytes) -> list[int]:
        topic = self._state.topics.by_id.get(topic_id)
        return topic.partition_numbers if topic is not None else []

    def _numbers(self, topic_id: bytes) -> list[int]:
        return self._topic(topic_id).partition_numbers

    def _return_fenced(self, event: kev.ReturnFenced) -> None:
        self._state.links.expect_link(event.link)
        expect(event.fence == self._state.switches.next_fence, f"fence {event.fence}")
        self._only_once("new fence", event.fence)
        for topic_id in event.topic_ids:
            self._only_once("fence of topic", topic_id)
            expect(bool(self._own(topic_id).reached), f"topic {topic_id.hex()} does not reverse")
            expect(("reverse of topic", topic_id) not in self._once, "it ends in this entry")
            expect(not self._topic(topic_id).link, f"topic {topic_id.hex()} is mirrored")

    def _topics_returned(self, event: kev.TopicsReturned) -> None:
        fence = self._fence_goes_on(event.fence)
        expect(fence.is_back, f"fence {event.fence} does not return")
        self._change_sides(fence, event.epochs)

    def _change_sides(self, fence: Fence, epochs: Iterable[kev.EpochBegan]) -> None:
        numbers: set[int] = set()
        for topic_id in fence.limits:
            numbers.update(self._numbers(topic_id))
            self._only_once("switch of topic", topic_id)
        for each in epochs:
            expect(each.partition in numbers, f"an epoch of partition {each.partition}")

    def _partitions_added(self, event: ev.PartitionsAdded) -> None:
        present = len(self._topic(event.topic_id).partition_numbers)
        expect(event.partition_count > present, f"{event.partition_count} is not more partitions")
        self._only_once("growth of topic", event.topic_id)
        self._add_partitions(event.partition_count - present)

    def _add_partitions(self, count: int) -> None:
        self._partitions += count
        following = self._state.partitions.next_number + self._partitions
        expect(count <= MAX_PARTITIONS, f"{count} partitions at once")
        expect_left(following < MAX_UINT32, "the numbers of partitions have run out")

    def _topic_deleted(self, event: ev.TopicDeleted) -> None:
        topic = self._topic(event.topic_id)
        self._only_once("end of topic", event.topic_id)
        self._runs.topic_deleted(topic)
        self._transactions.topic_deleted(topic.partition_numbers)

    def _configs_set(self, event: ev.ConfigsSet) -> None:
        if event.resource_type == _TOPIC_RESOURCE:
            topic = self._state.topics.by_name.get(event.resource_name)
            expect(topic is not None, f"configs of unknown topic {event.resource_name}")
            if topic is not None:
                self._topic(topic.topic_id)

    def _topic(self, topic_id: bytes) -> Topic:
        is_gone = ("end of topic", topic_id) in self._once
        expect(not is_gone, f"topic {topic_id.hex()} is deleted in the same entry")
        return self._state.topics.get(topic_id)

    def _group_changed(self, event: gev.GroupChanged) -> None:
        last = self._state.groups.get(event.group_id)
        expect(
            last is None or event.generation >= last.generation,
            f"group {event.group_id}: generation {event.generation} after a later one",
        )
        # Other events are checked against its generation, and whether it has members.
        self._only_once("group", event.group_id)

    def _offsets_deleted(self, event: gev.OffsetsDeleted) -> None:
        group = self._state.groups.get(event.group_id)
        is_gone = ("group", event.group_id) in self._once
        expect(group is not None and not is_gone, f"unknown group {event.group_id}")
        for topic_id, partition in event.partitions:
            found = group is not None and group.offset(topic_id, partition) is not None
            found = found or self._transactions.is_pending(event.group_id, (topic_id, partition))
            found = found and ("end of topic", topic_id) not in self._once
            expect(found, f"group {event.group_id}: no offset to delete")
            self._only_once("offset", (event.group_id, topic_id, partition))

    def _group_deleted(self, event: gev.GroupDeleted) -> None:
        group = self._state.groups.get(event.group_id)
        members: Sequence[object] = group.members if group is not None else ()
        expect(not members, f"group {event.group_id} deleted, but it has members")
        self._only_once("group", event.group_id)
        self._only_once("claim", f"group/{event.group_id}")

    def _move_begun(self, event: lev.LogMoveBegun) -> None:
        self._lives(event.incarnation)
        present = self._state.log_moves.present
        if present is not None:
            self._only_once("end of log move", present.move_id)

    def _moves(
        self, event: lev.LogMoveOffered | lev.LogMoveAnswered | lev.LogMoveCancelled | lev.LogMoved
    ) -> None:
        move = self._state.log_moves.present
        if move is None or move.move_id != event.move_id:
            raise StateBroken(f"log move {event.move_id} is not under way")
        self._lives(move.mover)
        has_ended = ("end of log move", event.move_id) in self._once
        expect(not has_ended, f"log move {event.move_id} has ended in the same entry")

    def _move_ends(self, event: lev.LogMoveCancelled | lev.LogMoved) -> None:
        self._moves(event)
        self._only_once("end of log move", event.move_id)

    def _moved(self, event: lev.LogMoved) -> None:
        self._move_ends(event)
        move = self._state.log_moves.present
        expect(move is not None and bool(move.offered_at), "a log move ends before it was offered")
