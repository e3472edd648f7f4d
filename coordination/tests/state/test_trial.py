"""Events that pass the trial can be folded and saved; all events that rules decide pass."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.rules.test_wal_rules import TOPIC, World, batch
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.drafts import CannotCommit, Draft
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import inlined as iev
from tidegate_coordination.events import log_moves as lev
from tidegate_coordination.events import restores as rev
from tidegate_coordination.events import security as sev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.entries import (
    EVENTS,
    UnreadableEntry,
    check_readable,
    decode_entry,
    encode_entry,
    encode_events,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.proposal import NOTHING, Decided, View
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.security.acls import Acl
from tidegate_coordination.security.quotas import QuotaChange, QuotaEntity
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.event_rows import ROWS

REFUSED = (StateBroken, LookupError, struct.error, TypeError)
LIMITS = (-(2**63), -1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
OWN_IDS = ClusterState().producer_ids.own
SMALL = (0, 1, 2, 3, 4, 5, 10, 12)


@cache
def busy() -> bytes:
    """A state with something of everything."""
    world = World()
    world.state.gateways.live[1].highest_version = 3
    for first in (0, 2, 4):
        world.commit(batch(first, 2, producer=7), batch(partition=1), batch(topic=b"s" * 16))
    world.apply(
        ev.WalCommitted(1, 9, 3, (ev.Run(2, 0, 3, 3, 1, 5, 1, 0),), ()),
        iev.BatchesInlined(1, 9, b"abc"),
        ev.GatewayRegistered(2, 2, "k2", "az", (), "0", 0),
        ev.GatewayDraining(2),
        ev.GatewayRegistered(3, 3, "k3", "az", (), "0", 0),
        ev.WalAbandoned(1, 3),
        ev.ClaimTaken("group/g", 1, 1),
        gev.GroupChanged("g", 1, "consumer", 3, "p", "m", ()),
        gev.GroupChanged("h", 1, "consumer", 3, "p", "m", (_member(),)),
        gev.OffsetsCommitted("g", 1, (gev.CommittedOffset(TOPIC, 0, 5, -1, "", 9),)),
        lev.LogMoveBegun("move", 1),
        lev.LogMoveOffered("move", "memory:", "c"),
        ev.Proposed(3, 4, 2, 5, 5, b""),
        ev.PartitionsCleaned((ev.CleanedPartition(0, 2, 1),)),
        ev.RunsSkipped(1, (ev.SkippedStretch(0, 2, 4),)),
        tev.TransactionalIdInitialised("x", 4, 0, -1, -1, 60_000),
        tev.TransactionalIdInitialised("y", 5, 0, -1, -1, 60_000),
        tev.TransactionWritten(4, ((1, 2),)),
        tev.OffsetsStaged(4, "g", 1, (gev.CommittedOffset(TOPIC, 0, 6, -1, "", 9),)),
        sev.AclsChanged((Acl(2, 3, "t", "User:g", "g", 4, 3),), ()),
        sev.ScramCredentialSet("g", 1, b"", b"", b"", 1),
        sev.ScramCredentialSealed("h", 1, 1, b"", b"", b""),
        sev.ClientQuotasSet((QuotaChange(QuotaEntity("g", "g"), "producer_byte_rate", 1.0),)),
        sev.DelegationTokenSet(DelegationToken("g", "User:g", "User:g", (), 1, 3, 2)),
    )
    return world.state.encode()


def _member() -> gev.MemberRecord:
    return gev.MemberRecord("m", None, "c", "h", 1, 1, (("p", b""),), b"")


def numbers(name: str) -> st.SearchStrategy[int]:
    """Draw mostly values that are possible."""
    likely = {
        "record_count": (1, 2),
        "base_offset": (0, 2, 3, 6),
        "next_offset": (2, 3, 4, 6),
        "end_offset": (2, 3, 6),
        "partition": (0, 1, 2),
        "incarnation": (1, 2, 3, 4),
        "supersedes": (0, 0, 1, 3),
        "epoch": (1, 2),
        "generation": (3, 4),
        "first": (100,),
        "counter": (4, 5, 7),
        "number": (5, 6),
        "acknowledged": (0, 3, 5),
        "version": (3, 4),
        "resource_type": (2, 4),
        "producer_epoch": (0, 1),
        "producer_id": (4, 4, 5, 7),
        "next_producer_id": (4, 12),
        "marker_epoch": (0, 1),
        "next_epoch": (0, 1),
        "markers": (1, 3),
        "first_offsets": (0, 2),
        "partitions": (0, 1, 2),
        "pattern_type": (3,),
        "operation": (3, 4),
        "permission": (3,),
        "mechanism": (1, 2),
        "tenant": (0,),
    }.get(name, SMALL)
    return st.sampled_from(likely * 12 + LIMITS)


def values(name: str, hint: Any) -> st.SearchStrategy[Any]:
    if hint is int:
        return numbers(name)
    if hint is bool:
        return st.booleans()
    if hint is float:
        return st.sampled_from((1.0, 1.0, 1.0, 0.5, 0.0))
    if name == "key":
        return st.sampled_from(("producer_byte_rate", "request_percentage", "x"))
    if name == "principal":
        return st.just("User:g")
    if hint is str:
        return st.sampled_from(("g", "h", "t", "s", "x", "y", "new", "move", "group/g"))
    if hint is bytes:
        return st.sampled_from((TOPIC, b"s" * 16, b"n" * 16))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return structs(hint)
    return _containers(name, get_origin(hint), get_args(hint))


def _containers(name: str, origin: Any, inner: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin is dict:
        return st.just({"retention.ms": "5"})
    if origin is tuple and inner[-1] is Ellipsis:
        any_of_them = st.lists(values(name, inner[0]), max_size=3).map(tuple)
        # An end is folded only with markers for just the partitions of its transaction.
        return st.one_of(st.just(((1, 3),)), any_of_them) if name == "markers" else any_of_them
    if origin is tuple:
        return st.tuples(*(values(name, each) for each in inner))
    return st.one_of(st.none(), *(values(name, each) for each in inner if each is not type(None)))


@cache
def structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    fields = get_type_hints(kind)
    fields.pop("__match_args__", None)
    names = kind.__struct_fields__
    return st.builds(kind, **{name: values(name, fields[name]) for name in names})


def kinds() -> Iterator[type[ev.Event]]:
    # A replica stops at a level that no release has, and its error tells the operator.
    return (each for each in EVENTS if each is not ev.MetadataVersionSet)


def shared_kinds() -> Iterator[type[ev.Event]]:
    # A restore folds TimelineOpened alone, before there is a log.
    return (each for each in kinds() if each is not rev.TimelineOpened)


FUZZ = settings(
    max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def check_that_trial_and_fold_agree(events: list[ev.Event]) -> None:
    state = ClusterState.decode(busy())
    before = state.encode()
    try:
        encoded = encode_events(events)
        check_readable(events, encoded)
        Trial(state).check(events)
    except (*REFUSED, OverflowError, UnreadableEntry):
        return
    finally:
        assert state.encode() == before
    payload = encode_entry(b"n", 0, 1_000_000, encoded)
    state.apply(state.position + 1, decode_entry(payload, 1))
    assert ClusterState.decode(state.encode()).encode() == state.encode()


@FUZZ
@given(st.data())
@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.__name__)
def test_events_that_pass_the_trial_can_be_folded_and_saved(
    kind: type[ev.Event], data: st.DataObject
) -> None:
    check_that_trial_and_fold_agree(data.draw(st.lists(structs(kind), min_size=1, max_size=3)))


@settings(FUZZ, max_examples=300)
@given(st.lists(st.sampled_from(list(shared_kinds())).flatmap(structs), min_size=2, max_size=4))
def test_trial_and_fold_agree_on_events_of_several_kinds(events: list[ev.Event]) -> None:
    check_that_trial_and_fold_agree(events)


def test_every_event_has_a_trial_and_passes_it_somewhere() -> None:
    """All other tests show that rules decide on no event that a trial refuses."""
    trial = Trial(ClusterState.decode(busy()))
    trial.check([ev.GatewayRenewed(), ev.ConfigsSet(4, "", {"a": "b"}), ev.ProducersExpired(5)])
    trial.check([tev.TransactionEnded(4, True, 0, 4, 0, ((1, 3),), 1, tev.CAUSE_CLIENT)])
    assert {row.kind for row in ROWS} == set(EVENTS)
    assert len(ROWS) == len(EVENTS)


def test_nothing_is_known_of_other_events() -> None:
    class Strange(ev.Event, frozen=True, tag=9999):
        pass

    with pytest.raises(StateBroken, match="no trial knows Strange"):
        Trial(ClusterState()).check([Strange()])


def test_a_field_of_another_type_is_nothing_that_can_be_read() -> None:
    configs: Any = {"retention.ms": None}
    for event in (ev.ConfigsSet(4, "", configs), ev.TopicDeleted("text")):  # type: ignore[arg-type]
        with pytest.raises(UnreadableEntry):
            check_readable([event], encode_events([event]))


class Decides:
    """A rule with a bug: it decides on the events that it was given."""

    reads = writes = NOTHING

    def __init__(self, *events: ev.Event) -> None:
        self.events = events

    def decide(self, view: View) -> Decided[str]:
        return Decided(self.events, "done")


class FailsInCompany:
    """Fails until an entry has been folded since it was made.

    decided_at: the position at each try.
    """

    reads = writes = NOTHING

    def __init__(self, state: ClusterState) -> None:
        self._made_at = state.position
        self.decided_at: list[int] = []

    def decide(self, view: View) -> Decided[str]:
        self.decided_at.append(view.state.position)
        if view.state.position == self._made_at:
            raise RuntimeError("not behind that one")
        return Decided([], "done")


def commit(run: ev.Run, counter: int = 0) -> ev.WalCommitted:
    return ev.WalCommitted(1, counter, 100, (run,), ())


BROKEN: dict[str, list[ev.Event]] = {
    "a gap": [commit(ev.Run(0, 0, 10, 5, 1, 1, 1, 0))],
    "beyond the last offset": [commit(ev.Run(0, 0, 10, 0, 2**63, 1, 1, 0))],
    "no such partition": [commit(ev.Run(9, 0, 10, 0, 1, 1, 1, 0))],
    "a length of 33 bits": [commit(ev.Run(0, 0, 2**32, 0, 1, 1, 1, 0))],
    "unknown flags": [commit(ev.Run(0, 0, 10, 0, 1, 1, 1, 256))],
    "a WAL id twice": [commit(ev.Run(0, 0, 10, at, 1, 1, 1, 0)) for at in (0, 1)],
    "a size of 33 bits": [ev.WalCommitted(1, 0, 2**32, (), ())],
    "a counter of 64 bits": [ev.WalAbandoned(1, 2**64 - 1)],
    "an object that lives": [ev.ObjectsCollected((0,))],
    "one that has ended": [ev.GatewayExpired(1), ev.GatewayExpired(1)],
    "a text that is none": [ev.ClaimReleased(5)],  # type: ignore[arg-type]
    "a level that is too low": [ev.MetadataVersionSet(1)],
}


@pytest.mark.parametrize("name", BROKEN)
async def test_an_event_that_cannot_be_folded_fails_only_its_proposal(name: str) -> None:
    log = MemoryLog()
    one = Coordinator(log, ClusterState(), rng=Random(1), wall_clock=lambda: 1_000.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        answer = await one.propose(Register(1, "k", "az", (), "0", "c" * 22))
        assert isinstance(answer, int)
        one.incarnation = answer
        await one.propose(CreateTopics([NewTopic(TOPIC, "t")]))
        position = one.state.position
        with pytest.raises(ProposalFailed):
            await one.propose(Decides(*BROKEN[name]))
        assert one.state.position == position
        await one.propose(Decides(commit(ev.Run(0, 0, 10, 0, 1, 1, 1, 0))))
        assert one.state.position == position + 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (rev.TimelineOpened(2**31, 100, 0, "r"), "timeline"),
        (rev.TimelineOpened(2, 2**32, 0, "r"), "first_incarnation"),
        (rev.TimelineOpened(2, 100, OWN_IDS.stop, "r"), "which are not the cluster's"),
        (rev.SalvageEnded("r", OWN_IDS.stop), "which are not the cluster's"),
    ],
)
def test_a_restore_leaves_the_cluster_its_numbers(event: ev.Event, text: str) -> None:
    """The next range holds another cluster's ids."""
    state = ClusterState()
    if isinstance(event, rev.SalvageEnded):
        opened = encode_events([rev.TimelineOpened(2, 100, 0, "r")])
        state.apply(1, decode_entry(encode_entry(b"n", 0, 1, opened), 1))
        Trial(state).check([rev.SalvageEnded("r", OWN_IDS.stop - 1)])
    else:
        Trial(state).check([rev.TimelineOpened(2**31 - 1, 2**32 - 1, OWN_IDS.stop - 1, "r")])
    with pytest.raises(StateBroken, match=text):
        Trial(state).check([event])


def test_proposals_of_one_entry_are_tried_one_after_the_other() -> None:
    state = ClusterState.decode(busy())
    draft: Draft[int] = Draft(state, 1, 5, max_bytes=1 << 20, may_write=True)
    for number, offset in enumerate((3, 4)):
        assert draft.add(Decides(commit(ev.Run(1, 0, 10, offset, 1, 1, 1, 0), 4 + number)), number)
    # Decided after these two, the proposal fails. Decided before them, it would be committed.
    late = Decides(commit(ev.Run(1, 0, 10, 3, 1, 1, 1, 0), 6))
    assert not draft.add(late, 2)
    assert [whose for whose, _ in draft.answers] == [0, 1]


def test_a_proposal_that_fails_alone_in_an_entry_fails() -> None:
    state = ClusterState.decode(busy())
    draft: Draft[int] = Draft(state, 1, 5, max_bytes=1 << 20, may_write=True)
    with pytest.raises(CannotCommit, match="run at 4, next is 3"):
        draft.add(Decides(commit(ev.Run(1, 0, 10, 4, 1, 1, 1, 0), 6)), 2)
    assert not draft.answers


def test_answers_without_events_do_not_block_a_draft() -> None:
    """If other gateways have appended, an entry without events is not appended.

    So no replica falls behind by it.
    """
    draft: Draft[int] = Draft(ClusterState(), 1, 5, max_bytes=1 << 20, may_write=True)
    assert draft.add(Decides(), 1)
    with pytest.raises(CannotCommit):
        draft.add(Decides(commit(ev.Run(9, 0, 10, 0, 1, 1, 1, 0))), 2)
    small: Draft[int] = Draft(ClusterState(), 1, 5, max_bytes=200, may_write=True)
    assert small.add(Decides(), 1)
    with pytest.raises(CannotCommit, match="larger"):
        small.add(Decides(ev.ConfigsSet(4, "", {"log.cleanup.policy": "x" * 200})), 2)


def test_proposals_of_a_gateway_that_left_are_not_tried() -> None:
    """Proposals of the gateway often do not fit a state without that gateway, which is no bug."""
    draft: Draft[int] = Draft(ClusterState(), 1, 5, max_bytes=1 << 20, may_write=False)
    with capture_logs() as logs, pytest.raises(CannotCommit, match="has left"):
        draft.add(Decides(lev.LogMoveBegun("move", 1)), 1)
    assert not logs


async def test_a_proposal_that_fails_beside_others_is_decided_again_alone() -> None:
    one = Coordinator(MemoryLog(), ClusterState(), rng=Random(1), wall_clock=lambda: 1_000.0)
    loner = FailsInCompany(one.state)
    async with trio.open_nursery() as nursery:
        for proposal in (Register(1, "k", "az", (), "0", "c" * 22), loner):
            nursery.start_soon(one.propose, proposal)
            await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as running:
            running.start_soon(one.run)
            assert await one.propose(Decides()) == "done"
            running.cancel_scope.cancel()
    assert loner.decided_at == [0, 1]
