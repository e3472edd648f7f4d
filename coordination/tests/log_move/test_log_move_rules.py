"""The steps that a move may take in each phase, and their effect on the state."""

from __future__ import annotations

from typing import cast

import pytest

from tidegate_coordination.events.cluster import ClusterCreated, GatewayExpired, GatewayRegistered
from tidegate_coordination.events.entries import ENTRY_FORMAT, AnyEvent, Entry
from tidegate_coordination.events.log_moves import LogMoveBegun, LogMoved
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.rules.log_moves import (
    AnswerOffer,
    BeginLogMove,
    CancelLogMove,
    MoveStep,
    OfferLog,
    SealLog,
)
from tidegate_coordination.rules.proposal import Proposal, View
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState

MOVER = 3


def fold(state: ClusterState, *events: AnyEvent) -> None:
    state.apply(state.position + 1, Entry(ENTRY_FORMAT, b"", 0, 0, events))


def registered(incarnation: int, node_id: int, supersedes: int = 0) -> GatewayRegistered:
    return GatewayRegistered(incarnation, node_id, f"k{node_id}", "", (), "0", supersedes)


def begun() -> ClusterState:
    """Gateways 1 and 2, and a mover, which is the third incarnation."""
    state = ClusterState()
    fold(state, ClusterCreated("c", 1), registered(1, 1), registered(2, 2), registered(3, -9))
    return state


def decide(state: ClusterState, proposal: Proposal[object], writer: int = MOVER) -> object:
    decided = proposal.decide(View(state, writer, 0, 0))
    if decided.events:
        events = cast("tuple[AnyEvent, ...]", tuple(decided.events))
        fold(state, *events)
    return decided.answer


def offered() -> ClusterState:
    state = begun()
    decide(state, BeginLogMove("m"))
    assert decide(state, OfferLog("m", "b", "m")) is MoveStep.DONE
    return state


def test_the_log_is_sealed_when_every_live_gateway_can_go() -> None:
    state = offered()
    assert decide(state, SealLog("m")) is MoveStep.NOT_READY
    decide(state, AnswerOffer("m", ""), 1)
    assert decide(state, SealLog("m")) is MoveStep.NOT_READY
    decide(state, AnswerOffer("m", "no password"), 2)
    assert decide(state, SealLog("m")) is MoveStep.NOT_READY
    decide(state, AnswerOffer("m", ""), 2)
    assert decide(state, SealLog("m")) is MoveStep.DONE
    assert (state.log_moves.sealed_at, state.log_moves.last.url) == (state.position, "b")
    assert decide(state, SealLog("m")) is MoveStep.DONE  # asked again, its answer was lost


def test_a_gateway_that_begins_meanwhile_is_asked_too() -> None:
    state = offered()
    for each in (1, 2):
        decide(state, AnswerOffer("m", ""), each)
    fold(state, registered(4, 2, supersedes=2))
    assert decide(state, SealLog("m")) is MoveStep.NOT_READY
    fold(state, GatewayExpired(4))
    assert decide(state, SealLog("m")) is MoveStep.DONE


def test_nothing_is_sealed_before_it_was_offered() -> None:
    state = begun()
    decide(state, BeginLogMove("m"))
    fold(state, GatewayExpired(1), GatewayExpired(2))
    assert decide(state, SealLog("m")) is MoveStep.NOT_READY
    with pytest.raises(StateBroken, match="before it was offered"):
        fold(state, LogMoved("m"))


@pytest.mark.parametrize(
    "end",
    [
        (GatewayExpired(MOVER),),
        (registered(4, -9, supersedes=MOVER),),
        (LogMoveBegun("other", 1),),
        (TimelineOpened(2, 100, 0, "r"),),
    ],
)
def test_a_new_move_a_cancel_or_the_movers_end_ends_a_move(end: tuple[AnyEvent, ...]) -> None:
    state = offered()
    fold(state, *end)
    present = state.log_moves.present
    assert present is None or present.move_id == "other"
    assert decide(state, SealLog("m"), 1) is MoveStep.OVER
    assert decide(state, OfferLog("m", "b", "m"), 1) is MoveStep.OVER
    before = state.position
    decide(state, AnswerOffer("m", ""), 1)
    assert state.position == before


def test_a_move_can_be_cancelled_until_it_is_committed() -> None:
    state = offered()
    assert decide(state, CancelLogMove("other")) is False
    assert decide(state, CancelLogMove()) is True
    assert decide(state, CancelLogMove()) is False
    assert decide(state, SealLog("m")) is MoveStep.OVER


def test_a_snapshot_keeps_a_move_and_marks_a_copy() -> None:
    state = offered()
    decide(state, AnswerOffer("m", "why not"), 1)
    kept = ClusterState.decode(state.encode())
    assert kept.log_moves.present == state.log_moves.present
    with state.frozen(as_copy=True) as frozen:
        copy = ClusterState.decode(b"".join(frozen.pieces()))
    assert (kept.log_moves.is_copy, copy.log_moves.is_copy) == (False, True)
    for each in (state, copy):
        decide(each, AnswerOffer("m", ""), 1)
        decide(each, AnswerOffer("m", ""), 2)
        decide(each, SealLog("m"))
    assert copy.encode() == state.encode()
