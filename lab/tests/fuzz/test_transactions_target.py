"""The fuzzer's requests of transactions, and what it checks after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.worlds.transaction_world import TransactionWorld, batch
from tidegate_coordination.events.transactions import TransactionEnded
from tidegate_coordination.rules.transactions.ending import EndAnswer
from tidegate_coordination.state.transactions.ends import Ends
from tidegate_fuzz.connection_inputs import for_producers, request, split
from tidegate_fuzz.connection_target import ConnectionCampaign, TransactionsTarget
from tidegate_fuzz.cover import Marks
from tidegate_fuzz.transactions.checks import TransactionChecks, check_none_is_open
from tidegate_fuzz.transactions.inputs import lives, names_a_producer
from tidegate_protocol.batches import check_batch
from tidegate_protocol.headers import decode_request_header
from tidegate_protocol.messages import produce as pr

PRODUCERS = {0: (1_000, 3), 1: (1_001, 32_766)}


def test_producers_take_the_place_of_their_stand_ins() -> None:
    seen: Counter[tuple[int, int]] = Counter()
    for life in lives(Random(1)):
        stream = for_producers(b"".join(request(*each) for each in life), PRODUCERS)
        assert not names_a_producer(stream)
        for body in split(stream):
            if body.startswith(b"\0\0"):
                seen.update(producers_of(body))
    assert seen.keys() == {(1_000, 3), (1_000, 4), (1_001, 32_766), (1_001, 32_767)}


def producers_of(body: bytes) -> list[tuple[int, int]]:
    header = decode_request_header(memoryview(body))
    asked = pr.decode_request(memoryview(body)[header.body_position :], header.api_version)
    found: list[tuple[int, int]] = []
    for topic in asked.topic_data:
        for each in topic.partition_data:
            head = check_batch(memoryview(each.records or b""))
            found.append((head.producer_id, head.producer_epoch))
    return found


def opened() -> tuple[TransactionWorld, TransactionChecks]:
    """A world with two open transactions in a partition."""
    world, checks = TransactionWorld(), TransactionChecks()
    for name in ("x", "y"):
        world.write(batch(world.init(name), 0))
    checks.check(world.state)
    return world, checks


def test_the_checks_hold_until_the_end() -> None:
    world, checks = opened()
    with pytest.raises(AssertionError, match="open: "):
        check_none_is_open(world.state)
    for name in ("x", "y"):
        row = world.id(name)
        world.end(EndAnswer(None, row.producer_id, row.epoch), name)
        checks.check(world.state)
    check_none_is_open(world.state)


def test_a_last_stable_offset_that_stays_is_found() -> None:
    world, checks = opened()
    partition = world.partition()
    assert partition.open is not None
    partition.open.end(world.id("x").producer_id)  # as if it ended without a marker
    with pytest.raises(AssertionError, match="partition 0: open"):
        checks.check(world.state)
    partition.open = None
    with pytest.raises(AssertionError, match="partition 0: open"):
        checks.check(world.state)


def test_a_last_stable_offset_that_goes_back_is_found() -> None:
    world, checks = opened()
    row = world.id("x")
    world.end(EndAnswer(None, row.producer_id, row.epoch))
    checks.check(world.state)
    earlier, _ = opened()
    with pytest.raises(AssertionError, match="went back"):
        checks.check(earlier.state)


def test_the_seeds_make_transactions_that_end_in_both_ways() -> None:
    campaign = ConnectionCampaign(Marks(), 1, [], TransactionsTarget())
    ends: Counter[bool] = Counter()

    def noted(original: Callable[..., None]) -> Callable[..., None]:
        def note(self: Ends, event: TransactionEnded, name: str) -> None:
            ends[event.committed] += 1
            original(self, event, name)

        return note

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ends, "note", noted(Ends.note))
        tally = campaign.replay(whole_lives())
    assert tally.findings == {}
    assert ends[True] > 3
    assert ends[False] > 3


def whole_lives() -> list[bytes]:
    return [b"".join(request(*each) for each in life) for life in lives(Random(1))]
