"""Proposals that a gateway forwards: their order, their numbers, and the size of a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate_coordination.coordinator.coordinator import Waiting
from tidegate_coordination.forwarding.messages import MAX_ASK_BYTES, MAX_PROPOSAL_BYTES
from tidegate_coordination.forwarding.outbox import Outbox, Outgoing
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.proposal import Proposal


def filled(count: int, body: bytes = b"body") -> tuple[Outbox, list[Outgoing]]:
    """Return an outbox, and the proposals that wait in it."""
    outbox = Outbox()
    added = [outgoing(outbox.take_number(), body) for _ in range(count)]
    for each in added:
        outbox.add(each)
    return outbox, added


def outgoing(number: int, body: bytes = b"body") -> Outgoing:
    return Outgoing(number, "Renew", Waiting(Renew(), lambda _: None, lambda _: None), body)


def encoded(_: Proposal[Any]) -> bytes:
    return b"encoded"


def numbers(several: Sequence[Outgoing]) -> list[int]:
    return [each.number for each in several]


def test_acknowledged_numbers_end_below_the_first_that_may_be_asked_again() -> None:
    outbox, _ = filled(4)
    seen = [outbox.acknowledged]
    for number in (2, 1, 4, 3):
        outbox.end(number)
        seen.append(outbox.acknowledged)
    assert seen == [0, 0, 2, 2, 4]


def test_a_question_keeps_its_bound_but_holds_one_proposal_at_least() -> None:
    outbox, _ = filled(3, bytes(MAX_ASK_BYTES // 2 - 100))
    assert outbox.take(encoded) == []
    assert numbers(outbox.hand_back()) == [1, 2]
    large = outgoing(outbox.take_number(), bytes(MAX_PROPOSAL_BYTES))
    outbox.add(large)
    outbox.take(encoded)
    assert numbers(outbox.hand_back()) == [3]
    outbox.take(encoded)
    assert outbox.hand_back() == [large]
    assert outbox.is_empty


def test_a_proposal_that_no_gateway_accepts_ends_and_later_ones_are_sent() -> None:
    outbox, [large, small] = filled(2)
    large.body, small.body = bytes(MAX_PROPOSAL_BYTES + 1), b""
    assert outbox.take(encoded) == [large]
    assert (outbox.asking, small.body, outbox.acknowledged) == ([small], b"encoded", 1)


def test_proposals_left_out_of_a_question_are_in_the_next_one() -> None:
    outbox, _ = filled(5)
    outbox.take(encoded)
    outbox.add(outgoing(outbox.take_number()))
    asked: list[list[int]] = []
    while outbox.asking:
        outbox.ask_for_less()
        asked.append(numbers(outbox.hand_back()))
        outbox.take(encoded)
    assert asked == [[1, 2, 3], [4, 5], [6]]


def test_a_lone_proposal_stays_asked_for() -> None:
    outbox, [only] = filled(1)
    outbox.take(encoded)
    outbox.ask_for_less()
    assert outbox.asking == [only]


def test_handed_over_proposals_are_first_and_in_order() -> None:
    outbox, _ = filled(2)
    outbox.add_first([outgoing(outbox.take_number()), outgoing(outbox.take_number())])
    outbox.take(encoded)
    assert numbers(outbox.asking) == [3, 4, 1, 2]


def test_a_sent_proposal_is_withdrawn_by_asking_that_it_fails() -> None:
    outbox, [sent, unsent] = filled(2)
    sent.asked.again = True
    for each in (sent, unsent):
        outbox.withdraw(each.waiting)
    outbox.end(sent.number)
    outbox.take(encoded)
    assert (outbox.asking, outbox.acknowledged) == ([sent], 2)
    assert sent.asked.is_withdrawn
