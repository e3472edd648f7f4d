"""Planted bugs, as in test_planted_bugs.py: those of log, groups and topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tests.worlds.rule_search import in_rules
from tidegate_coordination.coordinator.committer import Committer
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.replica import Replica
from tidegate_coordination.events.cluster import ClaimTaken, GatewayExpired
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.events.groups import GroupChanged
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.values import MemberIdentity
from tidegate_coordination.log.snapshots import save_verified
from tidegate_coordination.rules.consumer_groups import groups as group_rules
from tidegate_coordination.rules.consumer_groups import offsets as offset_rules
from tidegate_coordination.rules.consumer_groups.offsets import CommitOffsets
from tidegate_coordination.rules.gateways import ExpireGateways, Renew, TakeClaim
from tidegate_coordination.rules.proposal import Decided
from tidegate_coordination.rules.records.wal_judge import WalJudge
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import TopicTable
from tidegate_gateway.groups.hosted_group import HostedGroup
from tidegate_gateway.requests.records import fetch_answer
from tidegate_gateway.topics.looks import Look
from tidegate_gateway.upkeep import housekeeper

# -- the log --------------------------------------------------------------------------------------


def forgets_its_nonce(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Committer, "_is_own", lambda *_: False)


def takes_any_entry_for_its_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Committer, "_is_own", lambda *_: True)


def drops_what_met_a_conflict(patch: pytest.MonkeyPatch) -> None:
    real = Committer._append

    async def append(self: Any, draft: Any) -> bool:
        done = await real(self, draft)
        if not done:
            draft.answers.clear()
        return done

    patch.setattr(Committer, "_append", append)


def applies_entries_twice(patch: pytest.MonkeyPatch) -> None:
    real = Replica.fold

    def fold(self: Any, entries: Any) -> None:
        real(self, entries)
        for each in entries[-1:]:
            self.state.position -= 1
            self.state.apply(each.position, decode_entry(each.payload, each.position))

    patch.setattr(Replica, "fold", fold)


def goes_on_when_it_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "has_left", False)


class _Hasty:
    """A coordinator that claims at once that it has caught up."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordinator, name)

    async def catch_up(self) -> None:
        await trio.lowlevel.checkpoint()


def answers_from_where_it_stands(patch: pytest.MonkeyPatch) -> None:
    """A coordinator refuses, or finds a duplicate, without proof of being at the log's end.

    Administrative requests look names up first, with such a proof; this plant removes it, too.
    """
    look_up = Look.take

    async def take(self: Any, *names: Any) -> None:
        coordinator = self._coordinator
        self._coordinator = _Hasty(coordinator)
        try:
            await look_up(self, *names)
        finally:
            self._coordinator = coordinator

    async def commit(self: Any) -> None:
        while self._queue:
            draft = self._draft()
            if not draft.events or await self._append(draft):
                for waiting, answer in draft.answers:
                    waiting.deliver(answer)
                return
            self._queue._waiting.extendleft(each for each, _ in reversed(draft.answers))

    patch.setattr(Look, "take", take)
    patch.setattr(Committer, "commit", commit)


def snapshot_misses_an_entry(patch: pytest.MonkeyPatch) -> None:
    async def wrong(log: Any, position: int, chunks: Any, **_: Any) -> Any:
        state = ClusterState.decode(b"".join(chunks))
        state.position += 1
        return await save_verified(log, position + 1, [state.encode()])

    patch.setattr("tidegate_gateway.upkeep.housekeeper.save_verified", wrong)


def trims_above_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    async def wrong(log: Any, **_: Any) -> None:
        snapshot = await log.load_snapshot()
        await log.trim(snapshot.position + 3)

    patch.setattr("tidegate_gateway.upkeep.housekeeper.trim_below_verified", wrong)


def expires_by_its_own_clock(patch: pytest.MonkeyPatch) -> None:
    def decide(self: Any, view: Any) -> Any:
        gateways = view.state.gateways
        ended = [
            each.incarnation
            for each in gateways.live.values()
            if view.clock_ms - each.clock_ms > gateways.lease_ms and each.incarnation != view.writer
        ]
        return Decided([GatewayExpired(each) for each in ended], ended)

    async def renew_once(self: Any) -> None:
        await self._coordinator.propose(Renew())
        await self._coordinator.propose(ExpireGateways())

    patch.setattr(ExpireGateways, "decide", decide)
    patch.setattr(housekeeper.Housekeeper, "_renew_once", renew_once)


# -- claims and groups ----------------------------------------------------------------------------


def claims_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    for module in (group_rules, offset_rules):
        patch.setattr(module, "holds_claim", lambda view, group_id, claim_epoch: True)


def claims_are_stolen(patch: pytest.MonkeyPatch) -> None:
    def decide(self: TakeClaim, view: Any) -> Any:
        claim = view.state.claims.get(self.name)
        if claim is not None and claim.incarnation == view.writer:
            return Decided((), claim.epoch)
        epoch = claim.epoch + 1 if claim is not None else 1
        return Decided((ClaimTaken(self.name, view.writer, epoch),), epoch)

    patch.setattr(TakeClaim, "decide", decide)
    patch.setattr("tidegate_gateway.groups.group_claims.holder", lambda state, group_id: None)
    patch.setattr("tidegate_gateway.groups.group_claims.may_serve", lambda state, me: True)


def all_expire_when_the_claim_moves(patch: pytest.MonkeyPatch) -> None:
    real = ClassicGroup.restore.__func__  # type: ignore[attr-defined]

    def restore(known: GroupChanged, *, claim_epoch: int, settings: Any, now: float) -> Any:
        return real(ClassicGroup, known, claim_epoch=claim_epoch, settings=settings, now=now - 1e6)

    patch.setattr(ClassicGroup, "restore", staticmethod(restore))


def generations_begin_anew(patch: pytest.MonkeyPatch) -> None:
    real = ClassicGroup.restore.__func__  # type: ignore[attr-defined]

    def restore(known: GroupChanged, **more: Any) -> Any:
        empty = GroupChanged(known.group_id, known.claim_epoch, known.protocol_type, 0, "", "", ())
        return real(ClassicGroup, empty, **more)

    patch.setattr(ClassicGroup, "restore", staticmethod(restore))
    patch.setattr(group_rules.ChangeGroup, "decide", _decide_without_generations)


def _decide_without_generations(self: group_rules.ChangeGroup, view: Any) -> Any:
    held = group_rules.holds_claim(view, self.record.group_id, self.record.claim_epoch)
    return Decided((self.record,) if held else (), held)


def assignments_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    real = HostedGroup._persisted

    def carry_out(self: Any) -> None:
        while self.machine.storing:
            real(self, self.machine, True)

    plain = HostedGroup.carry_out

    def both(self: Any) -> None:
        plain(self)
        carry_out(self)

    patch.setattr(HostedGroup, "carry_out", both)
    patch.setattr(HostedGroup, "_persisted", lambda self, machine, held: None)


def static_members_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    for name in ("heartbeat", "check_commit"):
        _let_in(patch, name)


def _let_in(patch: pytest.MonkeyPatch, name: str) -> None:
    real = getattr(ClassicGroup, name)

    def wrong(self: ClassicGroup, member: MemberIdentity, generation: int, now: float) -> Any:
        present = self.roster.by_instance.get(member.instance_id or "")
        return real(self, replace(member, member_id=present or member.member_id), generation, now)

    patch.setattr(ClassicGroup, name, wrong)


def old_generations_commit(patch: pytest.MonkeyPatch) -> None:
    real = CommitOffsets.decide
    patch.setattr(
        ClassicGroup,
        "check",
        lambda self, member, generation: self.roster.check(member.member_id, member.instance_id),
    )
    patch.setattr(
        CommitOffsets, "decide", lambda self, view: real(replace(self, generation=-1), view)
    )


def offsets_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    real = Coordinator.propose

    async def propose(self: Any, proposal: Any, **more: Any) -> Any:
        if not isinstance(proposal, CommitOffsets):
            return await real(self, proposal, **more)
        self.submit(proposal, lambda answer: None, lambda failure: None)
        return [True] * len(proposal.offsets)

    patch.setattr(Coordinator, "propose", propose)


# -- topics ---------------------------------------------------------------------------------------

_names: dict[bytes, str] = {}


def _remember_names(patch: pytest.MonkeyPatch) -> None:
    real = TopicTable.fold_created

    def fold_created(self: Any, event: Any, *more: Any) -> None:
        _names[event.topic_id] = event.name
        real(self, event, *more)

    patch.setattr(TopicTable, "fold_created", fold_created)


def writes_to_the_topic_of_that_name(patch: pytest.MonkeyPatch) -> None:
    _remember_names(patch)
    real = WalJudge.judge

    def judge(self: Any, batch: Any) -> Any:
        topics = self._view.state.topics
        successor = topics.by_name.get(_names.get(batch.topic_id, ""))
        if batch.topic_id not in topics.by_id and successor is not None:
            batch = batch._replace(topic_id=successor.topic_id)
        return real(self, batch)

    patch.setattr(WalJudge, "judge", judge)


def reads_the_topic_of_that_name(patch: pytest.MonkeyPatch) -> None:
    _remember_names(patch)
    real = fetch_answer.Look._partition

    def partition(self: Any, wanted: Any) -> Any:
        topics = self._state.topics
        successor = topics.by_name.get(_names.get(wanted.topic_id, ""))
        if wanted.topic_id not in topics.by_id and successor is not None:
            wanted = replace(wanted, topic_id=successor.topic_id)
        return real(self, wanted)

    patch.setattr(fetch_answer.Look, "_partition", partition)


def keeps_deleted_topics(patch: pytest.MonkeyPatch) -> None:
    """A gateway serves a deleted partition from its former state."""
    real = fetch_answer.Look._partition
    known: dict[tuple[bytes, int], Any] = {}

    def partition(self: Any, wanted: Any) -> Any:
        key = (wanted.topic_id, wanted.request.partition)
        known[key] = real(self, wanted) or known.get(key)
        return known[key]

    patch.setattr(fetch_answer.Look, "_partition", partition)


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (forgets_its_nonce, {"no offset", "false error"}, 6),
        (takes_any_entry_for_its_own, {"invariant 5", "gateway died"}, 2),
        (drops_what_met_a_conflict, {"stuck"}, 4),
        (applies_entries_twice, {"invariant 5", "gateway died"}, 1),
        (goes_on_when_it_has_ended, {"invariant 8"}, 29),
        (answers_from_where_it_stands, {"false error"}, 66),
        (snapshot_misses_an_entry, {"invariant 5", "gateway died"}, 3),
        (trims_above_the_snapshot, {"gateway died", "stuck"}, 1),
        (expires_by_its_own_clock, {"expired too soon"}, 2),
        (claims_are_not_checked, {in_rules("and lost it"), "invariant 7"}, 265),
        (claims_are_stolen, {"claim stolen"}, 1),
        (all_expire_when_the_claim_moves, {"expired early"}, 91),
        (untried(generations_begin_anew), {"generation fell", "expired early"}, 1),
        (assignments_before_they_are_durable, {"generation fell", "two owners"}, 12),
        (static_members_are_not_fenced, {"static member not fenced"}, 2),
        (old_generations_commit, {in_rules("took a write of generation"), "zombie commit"}, 8),
        (offsets_before_they_are_durable, {"stale commit", "vanished commit"}, 73),
        (
            writes_to_the_topic_of_that_name,
            {in_rules("its partition does not exist"), "foreign record", "deleted topic written"},
            273,
        ),
        (reads_the_topic_of_that_name, {"foreign record", "deleted data read"}, 8),
        (keeps_deleted_topics, {"deleted data read"}, 76),
    ],
)
def test_planted_bug_of_log_groups_topics_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch)
