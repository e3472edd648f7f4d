"""Events of every type, in an order in which a cluster could write them."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import inlined as iev
from tidegate_coordination.events import links as kev
from tidegate_coordination.events import log_moves as lev
from tidegate_coordination.events import pipeline as pev
from tidegate_coordination.events import restores as rev
from tidegate_coordination.events import security as sev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.security.acls import Acl
from tidegate_coordination.security.quotas import DEFAULT, QuotaChange, QuotaEntity
from tidegate_coordination.security.tokens import DelegationToken

from .record_targets import NOW_MS

TOPIC_ID: Final = bytes(range(16))
_PRODUCER: Final = 5
_TRANSACTIONAL: Final = 6
_MIRRORED_ID: Final = bytes(range(16, 32))
_MIRRORED: Final = 4  # the number of its partition
_FOREIGN: Final = 5 << 40


def some_events(newest: int = NEWEST) -> list[ev.Event]:
    """Return one event of each type at least.  newest: the level of the cluster."""
    return [
        ev.ClusterCreated("c" * 22, 1),
        ev.MetadataVersionSet(newest),
        ev.GatewayRegistered(1, 1, "k", "z", (ev.Endpoint("P", "h", 9092),), "1", 0, newest),
        ev.GatewayRenewed(),
        ev.StaticSettingsTold(1, {"log.retention.ms": "5"}),
        ev.Proposed(1, 1, 0, NOW_MS, 5, b""),
        *_of_topics(),
        *_of_records(),
        *_of_transactions(),
        *_of_small_writes(),
        *_of_segments(),
        *_of_groups(),
        *_of_links(),
        *_of_security(),
        ev.TopicDeleted(TOPIC_ID),
        ev.GatewayDraining(1),
        ev.GatewayDrained(1),
        ev.GatewayResumed(1),
        *_of_log_moves(),
        ev.GatewayExpired(1),
        rev.TimelineOpened(2, 9, 5_000, "r"),
        rev.FormerLivesFound("r", (rev.FormerLife(7, 1, "z", 1),)),
        rev.SalvageEnded("r", 6_000),
    ]


def some_entries() -> list[tuple[int, ev.Event]]:
    """Return pairs of a writer and an event; writer 0 is no registered gateway."""
    writer = 0
    entries: list[tuple[int, ev.Event]] = []
    for each in some_events():
        entries.append((writer, each))
        if isinstance(each, ev.GatewayRegistered):
            writer = each.incarnation
        elif isinstance(each, ev.GatewayExpired):
            writer = 0
    return entries


def _of_topics() -> list[ev.Event]:
    return [
        ev.TopicCreated(TOPIC_ID, "orders", 3, 1, {"retention.ms": "1"}),
        ev.PartitionsAdded(TOPIC_ID, 4),
        ev.ConfigsSet(4, "", {"a": "b"}),
        ev.ClaimTaken("group/g", 1, 1),
    ]


def _of_records() -> list[ev.Event]:
    return [
        ev.WalCommitted(
            1,
            0,
            999,
            (ev.Run(0, 36, 70, 0, 2, NOW_MS, 77, 0), ev.Run(1, 106, 70, 0, 1, NOW_MS, 77, 1)),
            (ev.ProducerBatch(0, _PRODUCER, 0, 0, 1, 0),),
        ),
        ev.WalAbandoned(1, 1),
        ev.ProducerIdsReserved(0, 1000),
    ]


def _of_transactions() -> list[ev.Event]:
    offset = gev.CommittedOffset(TOPIC_ID, 0, 1, -1, "", NOW_MS)
    return [
        tev.TransactionalIdInitialised("x", _TRANSACTIONAL, 0, -1, -1, 60_000),
        tev.TransactionGrew(_TRANSACTIONAL, (2,), ("g",)),
        ev.WalCommitted(
            1,
            2,
            500,
            (ev.Run(1, 36, 70, 1, 2, NOW_MS, 78, 0),),
            (ev.ProducerBatch(1, _TRANSACTIONAL, 0, 0, 1, 1),),
        ),
        tev.TransactionWritten(_TRANSACTIONAL, ((1, 1),)),
        tev.OffsetsStaged(_TRANSACTIONAL, "g", 1, (offset,)),
        tev.TransactionEnded(
            _TRANSACTIONAL, False, 1, _TRANSACTIONAL, 1, ((2, 0), (1, 3)), NOW_MS, tev.CAUSE_CLIENT
        ),
        tev.TransactionalIdInitialised("y", 7, 0, -1, -1, 60_000),
        tev.TransactionalIdsExpired(("y",)),
    ]


def _of_small_writes() -> list[ev.Event]:
    run = ev.Run(1, 0, 3, 4, 1, NOW_MS, 80, 0)
    return [
        ev.WalCommitted(1, 13, 3, (run,), ()),
        iev.BatchesInlined(1, 13, b"abc"),
        iev.InlineMoved(1, 14, 9, (iev.MovedStretch(1, 4, 5, (run,)),)),
    ]


def _of_segments() -> list[ev.Event]:
    segment = ev.Segment(1, 999, 70, 70, 0, 2, NOW_MS, 5)
    report = pev.PipelineReport(1, 0, 1, 999, 2, 0, 1, "an error", {"late": 1})
    return [
        ev.SegmentsPublished(1, (ev.SegmentsOfPartition(0, 0, 2, (segment,), 2, 9),)),
        ev.PartitionsCleaned((ev.CleanedPartition(0, 2, 1),)),
        pev.PipelineReported(1, report),
        ev.RunsSkipped(1, (ev.SkippedStretch(1, 0, 1),)),
        ev.SkipsEnded(1, (ev.SkippedStretch(1, 0, 1),), True),
        ev.RunsSkipped(1, (ev.SkippedStretch(1, 0, 1),)),
        ev.SkipsEnded(1, (ev.SkippedStretch(1, 0, 1),), False),
        ev.LogStartsMoved(((0, 1),)),
        ev.ObjectsCollected((0,)),
        ev.ProducersExpired(5),
    ]


def _of_groups() -> list[ev.Event]:
    member = gev.MemberRecord("m", None, "c", "h", 1, 2, (("range", b"\0"),), b"\1")
    return [
        gev.GroupChanged("g", 1, "consumer", 1, "range", "m", (member,)),
        gev.OffsetsCommitted("g", 1, (gev.CommittedOffset(TOPIC_ID, 0, 1, -1, "", NOW_MS),)),
        gev.OffsetsDeleted("g", ((TOPIC_ID, 0),)),
        gev.GroupChanged("g", 1, "consumer", 2, None, None, ()),
        ev.ClaimReleased("group/g"),
        gev.GroupDeleted("g"),
    ]


def _of_links() -> list[ev.Event]:
    linked = kev.LinkedTopic(_MIRRORED_ID, "mirrored", 1, 3, {"retention.ms": "1"})
    began = kev.MirrorStep(_MIRRORED, _FOREIGN, 0, 0, kev.STEP_BEGAN)
    ended = kev.MirrorStep(_MIRRORED, _FOREIGN, 0, 1, kev.STEP_ABORTED)
    return [
        kev.LinkSet("old", "s" * 22, "h:9092", ("mirrored.*",)),
        kev.TopicsLinked("old", (linked,)),
        ev.WalCommitted(
            1,
            3,
            300,
            (ev.Run(_MIRRORED, 36, 140, 0, 2, NOW_MS, 79, ev.RUN_FINAL),),
            (ev.ProducerBatch(_MIRRORED, _FOREIGN, 0, 0, 0, 0),),
        ),
        kev.RunsMirrored((began, ended), (kev.EpochBegan(_MIRRORED, 4, 0),)),
        kev.MirrorsPlaced((kev.MirrorPlace(_MIRRORED, 1, 9),)),
        kev.TopicsFenced(1, "old", (kev.FencedTopic(_MIRRORED_ID, ""),)),
        kev.FenceLifted(1, "late", 1),
        kev.SourceReopened(1, False),
        kev.TopicsFenced(2, "old", (kev.FencedTopic(_MIRRORED_ID, "9"),)),
        kev.FenceReached(2, 1),
        kev.TopicsSwitched(2),
        kev.TopicsReversing("old", (_MIRRORED_ID,)),
        kev.ReverseReached((kev.ReversedPlace(_MIRRORED, 9),)),
        kev.ReverseEnded((_MIRRORED_ID,), "another client"),
        kev.TopicsReversing("old", (_MIRRORED_ID,)),
        kev.ReturnFenced(3, "old", (_MIRRORED_ID,)),
        kev.FenceLifted(3, "late", 1),
        kev.ReturnFenced(4, "old", (_MIRRORED_ID,)),
        kev.TopicsReturned(4, (kev.EpochBegan(_MIRRORED, 5, 9),)),
        kev.TopicsFenced(5, "old", (kev.FencedTopic(_MIRRORED_ID, ""),)),
        kev.TopicsSwitched(5, (kev.EpochBegan(_MIRRORED, 6, 9),)),
        kev.SwitchesFinished("old", (_MIRRORED_ID,)),
        kev.GroupsFenced(1, "old", ("billing",)),
        kev.GroupFenceReached(1, 1, (kev.ForwardedMember("billing", "c-1", 3, "c-1", 45_000, -1),)),
        kev.GroupsUnfenced(1, "late"),
        kev.GroupsFenced(2, "old", ("billing", "audit")),
        kev.GroupsMoved(2),
        kev.LinkSet(
            "old",
            "s" * 22,
            "h:9092",
            ("mirrored.*",),
            forwards=True,
            groups=("b*",),
            transactional_ids=("app-*",),
            transaction_version=2,
        ),
        kev.GroupsFenced(3, "old", (), transactional_ids=("app-*",)),
        kev.GroupsMoved(3),
        tev.TransactionalIdInitialised("app-1", _FOREIGN + 1, 3, -1, -1, 60_000, state=4),
        ev.TopicDeleted(_MIRRORED_ID),
        kev.LinkRemoved("old"),
    ]


def _of_security() -> list[ev.Event]:
    entity = QuotaEntity("a", DEFAULT)
    of_address = QuotaChange(QuotaEntity(ip="10.0.0.1"), "connection_creation_rate", 5.0)
    acl = Acl(2, 4, "orders", "User:a", "*", 3, 3)
    denied = Acl(3, 3, "*", "User:*", "10.0.0.1", 2, 2)
    times = NOW_MS, NOW_MS + 9, NOW_MS + 5
    token = DelegationToken("t", "User:a", "User:b", ("User:c", "User:d"), *times)
    return [
        sev.AclsChanged((acl, denied), ()),
        sev.AclsChanged((), (denied,)),
        sev.ScramCredentialSet("a", 1, b"salt", b"\1" * 32, b"\2" * 32, 4_096),
        sev.ScramCredentialSet("b", 2, b"salt", b"\1" * 64, b"\2" * 64, 4_096),
        sev.ScramCredentialRemoved("b", 2),
        sev.ScramCredentialSealed("b", 2, 4_096, b"\1" * 8, b"\2" * 12, b"\3" * 48),
        sev.ClientQuotasSet((QuotaChange(entity, "producer_byte_rate", 1_024.0), of_address)),
        sev.ClientQuotasSet((QuotaChange(entity, "producer_byte_rate", None),)),
        sev.DelegationTokenSet(token),
        sev.DelegationTokenSet(DelegationToken("u", "User:a", "User:a", (), *times)),
        sev.DelegationTokensRemoved(("u",)),
    ]


def _of_log_moves() -> list[ev.Event]:
    return [
        lev.LogMoveBegun("m", 1),
        lev.LogMoveCancelled("m"),
        lev.LogMoveBegun("n", 1),
        lev.LogMoveOffered("n", "memory:", "c"),
        lev.LogMoveAnswered("n", 1, ""),
        lev.LogMoved("n"),
    ]
