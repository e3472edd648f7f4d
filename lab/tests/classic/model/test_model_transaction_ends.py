"""The model's transaction coordinator: repeats, fencing and time-outs."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import Closed, classic_world
from tests.worlds.classic_transactions import (
    NAME,
    TIMEOUT_SECONDS,
    Transactor,
    described,
    markers,
    read,
    settled,
    shown_state,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import fetch as fe
from tidegate_simulation.classic.profiles import KAFKA_2_1, KAFKA_4_3, KAFKA_4_3_V1, Profile

FENCED = ErrorCode.PRODUCER_FENCED
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
LAST_EPOCH = 32_766
PROFILES = pytest.mark.parametrize("profile", [KAFKA_4_3, KAFKA_4_3_V1])


async def asked(
    producer: Transactor, epoch: int, *, commits: bool, version: int = 5
) -> tuple[int, int]:
    """Send EndTxn with an epoch, as a late or repeated request; return its error and epoch."""
    request = et.EndTxnRequest(NAME, producer.producer_id, epoch, commits)
    answer = await producer.call("EndTxn", version, request)
    return answer.error_code, answer.producer_epoch


async def ended(producer: Transactor, *, commits: bool) -> None:
    """Write and end a transaction, markers included."""
    await producer.write(0)
    assert await producer.end(commits=commits) == 0
    await settled(producer.world)


@pytest.mark.parametrize("commits", [True, False])
async def test_repeats_of_version_5(commits: bool, autojump_clock: MockClock) -> None:
    """A repeat names the former epoch; it raises no epoch, and its answer has the new epoch."""
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)
        assert await asked(producer, 0, commits=commits) == (0, 1)
        assert await asked(producer, 0, commits=commits) == (BUSY, -1)
        assert await asked(producer, 0, commits=not commits) == (BUSY, -1)
        assert await asked(producer, 1, commits=commits) == (FENCED, -1)
        await settled(world)
        assert await asked(producer, 0, commits=commits) == (0, 1)
        assert await asked(producer, 0, commits=commits) == (0, 1)
        assert await asked(producer, 0, commits=not commits) == (WRONG_STATE, -1)
        assert await asked(producer, 1, commits=True) == (WRONG_STATE, -1)
        assert await asked(producer, 2, commits=commits) == (FENCED, -1)
        assert markers(world) == [(1, 1)]
        assert await asked(producer, 1, commits=False) == (0, 2)
        await settled(world)
        assert await shown_state(world) == "CompleteAbort"
        assert markers(world) == [(1, 1)]


@pytest.mark.parametrize("commits", [True, False])
async def test_repeats_before_version_5(commits: bool, autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        assert await producer.end(commits=commits) == WRONG_STATE
        await producer.write(0)
        assert await producer.end(commits=commits) == 0
        assert await producer.end(commits=commits) == BUSY
        assert await producer.end(commits=not commits) == BUSY
        await settled(world)
        assert await asked(producer, 0, commits=commits, version=4) == (0, -1)
        assert await producer.end(commits=not commits) == WRONG_STATE
        assert (markers(world), (await described(world)).producer_epoch) == ([(1, 0)], 0)


async def test_an_abort_without_a_transaction_bumps_too(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        assert await producer.end(commits=True) == WRONG_STATE
        assert await asked(producer, -1, commits=False) == (FENCED, -1)
        assert (await producer.end(commits=False), producer.epoch) == (0, 1)
        assert await shown_state(world) == "PrepareAbort"
        await settled(world)
        assert (await shown_state(world), markers(world)) == ("CompleteAbort", [])
        assert (await described(world)).transaction_start_time_ms > 0


async def test_a_late_end_of_version_4_may_end_the_next_transaction(
    autojump_clock: MockClock,
) -> None:
    """Since version 5 the epoch tells a late end from an end of the next transaction."""
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await ended(producer, commits=True)
        await producer.write(0)
        assert await producer.end(commits=True) == 0
        producer.knows_v2 = True
        await settled(world)
        await ended(producer, commits=True)
        await producer.write(0)
        assert await asked(producer, 0, commits=True) == (FENCED, -1)


async def test_a_new_producer_id_follows_the_last_epoch(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        old_id = producer.producer_id
        world.cluster.transactions[NAME].epoch = producer.epoch = LAST_EPOCH
        await producer.write(0)
        answer = await producer.ended()
        assert (answer.producer_epoch, answer.producer_id != old_id) == (0, True)
        assert await producer.add(1) == [BUSY]  # the new id counts once the markers are written
        await settled(world)
        assert markers(world) == [(1, LAST_EPOCH + 1)]
        repeat = et.EndTxnRequest(NAME, old_id, LAST_EPOCH, True)
        again = await producer.call("EndTxn", 5, repeat)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (
            0,
            producer.producer_id,
            0,
        )
        await producer.write(0)
        late: dict[str, Any] = {"producer_id": old_id, "producer_epoch": LAST_EPOCH}
        new_id = producer.producer_id
        assert await producer.init(**late) == FENCED  # and the transaction goes on
        assert (await producer.end(), producer.producer_id) == (0, new_id)
        await settled(world)
        assert (await producer.call("EndTxn", 5, repeat)).error_code == 49


# -- InitProducerId -------------------------------------------------------------------------------


@PROFILES
async def test_a_new_producer_aborts_what_is_open(
    profile: Profile, autojump_clock: MockClock
) -> None:
    async with classic_world(profile=profile) as world:
        old, new = Transactor(world, knows_v2=False), Transactor(world)
        await old.init()
        await old.write(0)
        assert await new.init() == BUSY
        assert await shown_state(world) == "PrepareAbort"
        assert await new.init() == BUSY
        assert (await old.end(), await old.add(1)) == (FENCED, [BUSY])
        await settled(world)
        assert (await new.init(), new.producer_id, new.epoch) == (0, old.producer_id, 2)
        assert markers(world) == [(1, 1)]
        found = await read(world)
        assert found.aborted_transactions == [fe.AbortedTransaction(old.producer_id, 0)]
        assert await old.add(1) == [FENCED]


async def test_a_producer_continues_with_what_it_had(autojump_clock: MockClock) -> None:
    """KIP-360: the same producer gets the next epoch, and a repeated request gets it again."""
    async with classic_world() as world:
        producer, other = Transactor(world), Transactor(world)
        assert await producer.init(producer_id=7, producer_epoch=3) == 0  # an unknown id
        assert producer.epoch == 0
        first = producer.producer_id
        assert (await producer.init(expected=True), producer.epoch) == (0, 1)
        producer.epoch = 0
        assert (await producer.init(expected=True), producer.epoch) == (0, 1)
        assert await producer.init(producer_id=first, producer_epoch=4) == FENCED
        assert await producer.init(version=3, producer_id=first, producer_epoch=4) == OLD_EPOCH
        assert await producer.init(producer_id=first + 1, producer_epoch=1) == FENCED
        assert (await other.init(), other.epoch) == (0, 2)
        assert await producer.init(expected=True) == FENCED


@pytest.mark.parametrize(("profile", "code"), [(KAFKA_4_3, 0), (KAFKA_4_3_V1, FENCED)])
async def test_a_producer_that_continues_may_have_one_open(
    profile: Profile, code: int, autojump_clock: MockClock
) -> None:
    """In transaction.version 2 the second request is a repeat of the first, which aborted."""
    async with classic_world(profile=profile) as world:
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)
        assert await producer.init(expected=True) == BUSY
        await settled(world)
        assert await producer.init(expected=True) == code
        assert (await described(world)).producer_epoch == 1


async def test_the_last_epoch_is_followed_by_a_new_id(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        old_id = producer.producer_id
        world.cluster.transactions[NAME].epoch = producer.epoch = LAST_EPOCH
        assert await producer.init(expected=True) == 0
        assert (producer.epoch, producer.producer_id != old_id) == (0, True)
        new_id = producer.producer_id
        assert await producer.init(producer_id=old_id, producer_epoch=LAST_EPOCH) == 0
        assert (producer.producer_id, producer.epoch) == (new_id, 0)


async def test_wrong_requests_for_producer_ids(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        producer = Transactor(world)
        assert await producer.init(producer_id=3) == ErrorCode.INVALID_REQUEST
        assert await producer.init(transactional_id="") == ErrorCode.INVALID_REQUEST
        wrong = ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert await producer.init(transaction_timeout_ms=0) == wrong
        assert await producer.init(transaction_timeout_ms=900_001) == wrong
        assert await producer.init(transactional_id="ty") == ErrorCode.NOT_COORDINATOR
        assert not world.cluster.transactions


# -- time-outs ------------------------------------------------------------------------------------


@PROFILES
async def test_a_time_out_aborts_and_fences(profile: Profile, autojump_clock: MockClock) -> None:
    async with classic_world(profile=profile) as world:
        await trio.sleep(3)
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await producer.write(0)
        await trio.sleep(TIMEOUT_SECONDS - 10)
        await producer.write(1)  # does not extend the time-out
        await trio.sleep(15)
        assert await shown_state(world) == "Ongoing"  # the coordinator looks every ten seconds
        await trio.sleep(5)
        assert await shown_state(world) == "CompleteAbort"
        assert (markers(world, 0), markers(world, 1)) == ([(1, 1)], [(1, 1)])
        assert await producer.produce() == OLD_EPOCH
        assert await producer.end(commits=False) == FENCED
        assert await producer.add(0) == [FENCED]
        assert await asked(producer, 0, commits=False) == (0, 1)  # a repeat of its own end
        assert await asked(producer, 0, commits=True) == (WRONG_STATE, -1)


async def test_a_time_out_in_the_last_epoch(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        old_id = producer.producer_id
        world.cluster.transactions[NAME].epoch = producer.epoch = LAST_EPOCH
        await producer.write(0)
        await trio.sleep(TIMEOUT_SECONDS + 11)
        assert markers(world) == [(1, LAST_EPOCH + 1)]
        assert (await producer.end(commits=False), producer.epoch) == (0, 0)
        assert producer.producer_id != old_id
        await ended(producer, commits=True)


async def test_each_transaction_has_the_whole_time(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        for _ in range(4):
            await producer.write(0)
            await trio.sleep(TIMEOUT_SECONDS / 2)
            assert await producer.end() == 0
            await settled(world)
        assert len(markers(world)) == 4
        await trio.sleep(TIMEOUT_SECONDS * 2)
        assert await shown_state(world) == "CompleteCommit"


async def test_an_old_release_knows_no_fenced_producers(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        old, new = Transactor(world, knows_v2=False), Transactor(world, knows_v2=False)
        await old.init(version=1)
        assert await old.add(0, version=1) == [0]
        assert await old.produce(version=7) == 0
        assert await new.init(version=1) == BUSY
        await settled(world)
        assert (await new.init(version=1), new.epoch) == (0, 2)
        assert await old.add(1, version=1) == [OLD_EPOCH]
        assert await old.end(version=1) == OLD_EPOCH
        assert await old.produce(version=7) == OLD_EPOCH
        assert await new.add(0, version=1) == [0]
        assert await new.produce(version=7) == 0
        assert await new.end(version=1) == 0
        await settled(world)
        assert markers(world) == [(1, 1), (3, 2)]
        with pytest.raises(Closed):
            await described(world)
