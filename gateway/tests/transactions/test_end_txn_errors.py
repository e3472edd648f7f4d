"""EndTxn on the wire: repeats, wrong epochs, and ends without a transaction."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.transactions.test_transaction_errors import (
    UNKNOWN,
    added,
    ended,
    initialised,
    with_last_epoch,
)
from tests.worlds.transaction_client import end, init, started, write
from tests.worlds.wire_client import wire_world
from tidegate_protocol.error_codes import ErrorCode as E

# -- EndTxn ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_committed", [None, True, False])
@pytest.mark.parametrize("is_repeat", [True, False])
@pytest.mark.parametrize("committed", [True, False])
async def test_an_end_of_version_2_without_a_transaction(
    first_committed: bool | None, is_repeat: bool, committed: bool, autojump_clock: MockClock
) -> None:
    """first_committed: how the last transaction ended; None: there was none."""
    async with wire_world() as world:
        client, topic_id = await started(world)
        last = await init(client)
        present = last
        if first_committed is None:
            present = await init(client)
        else:
            await write(client, topic_id, last, 0)
            answer = await end(client, last, committed=first_committed)
            present = (answer.producer_id, answer.producer_epoch)
        who = last if is_repeat else present
        code, *ids = await ended(client, who, committed=committed)
        if not is_repeat and not committed:
            assert (code, *ids) == (E.NONE, present[0], present[1] + 1)
        elif is_repeat and committed is first_committed:
            assert (code, *ids) == (E.NONE, *present)
        else:
            is_fenced = is_repeat and first_committed is None
            assert code == (E.PRODUCER_FENCED if is_fenced else E.INVALID_TXN_STATE)
            assert ids == [-1, -1]


async def test_a_repeat_fences_while_the_next_transaction_is_open(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await write(client, topic_id, producer, 0)
        _, *following = await ended(client, producer)
        await write(client, topic_id, (following[0], following[1]), 0)
        for committed in (True, False):
            code, *_ = await ended(client, producer, committed=committed)
            assert code == E.PRODUCER_FENCED


async def test_a_repeat_after_the_last_epoch_gets_the_next_producer_id(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        last = await with_last_epoch(world, client)
        await write(client, topic_id, last, 0)
        following = await ended(client, last)
        assert (following[0], following[2]) == (E.NONE, 0)
        assert following[1] != last[0]
        assert await ended(client, last) == following
        assert (await ended(client, last, committed=False))[0] == E.INVALID_TXN_STATE
        assert await write(client, topic_id, last, 1) == UNKNOWN


@pytest.mark.parametrize("version", range(5))
async def test_an_older_end_keeps_its_epoch(version: int, autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        producer = await init(client)
        for committed in (True, False):
            code, *_ = await ended(client, producer, committed=committed, version=version)
            assert code == E.INVALID_TXN_STATE  # there is no transaction to end
        for committed in (True, False):
            await added(client, producer)
            for _ in range(2):
                code, *ids = await ended(client, producer, committed=committed, version=version)
                assert (code, ids) == (E.NONE, [-1, -1])
            code, *_ = await ended(client, producer, committed=not committed, version=version)
            assert code == E.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [4, 5])
async def test_after_a_time_out(version: int, autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await write(client, topic_id, producer, 0)
        await trio.sleep(120)
        assert await write(client, topic_id, producer, 1) == E.INVALID_PRODUCER_EPOCH
        code, *_ = await ended(client, producer, version=version)
        assert code == (E.INVALID_TXN_STATE if version == 5 else E.PRODUCER_FENCED)
        answer = await ended(client, producer, committed=False, version=version)
        goes_on = (E.NONE, producer[0], producer[1] + 1)
        assert answer == (goes_on if version == 5 else (E.PRODUCER_FENCED, -1, -1))
        # As in Kafka with transaction.version 2, the client's own epoch counts as the bumped one.
        assert await initialised(client, expected=producer) == goes_on
        assert await write(client, topic_id, (producer[0], 1), 0) == E.NONE
