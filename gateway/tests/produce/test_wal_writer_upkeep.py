"""An unexpected error costs the WAL writer the batches of one object only.  A foreign object under
its own key shows that log and store disagree, and stops the gateway.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import Closed, WireWorld, produce_request, records_batch, wire_world
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.produce.wal_commits import BatchToken, Client
from tidegate_gateway.refusals_to_start import sentence_of
from tidegate_gateway.upkeep.key_taken import KeyTaken
from tidegate_protocol.error_codes import ErrorCode
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, ObjectExists


class OddStore(MemoryObjectStore):
    """A store that calls before_put at the begin of each put() of a WAL object."""

    def __init__(self, before_put: Callable[[OddStore, str], None]) -> None:
        super().__init__()
        self.before_put = before_put
        self.taken: dict[str, bytes] = {}

    async def put(self, key: str, body: Buffer) -> None:
        if "/wal/" in key:
            self.before_put(self, key)
            with suppress(ObjectExists):
                if key in self.taken:
                    await super().put(key, self.taken[key])
        await super().put(key, body)


def takes_the_first_key(store: OddStore, key: str) -> None:
    if not store.taken:
        store.taken[key] = b"of an earlier life of this log"


async def test_a_gateway_whose_key_is_taken_refuses_and_stops(autojump_clock: MockClock) -> None:
    """The foreign object stays, because it may hold the last records that a log lost."""
    store, log = OddStore(takes_the_first_key), MemoryLog()
    settings = {"object.delete.grace.ms": "0"}
    answers = []

    async def produce_once() -> None:
        async with wire_world(settings, store=store, log=log) as world:
            await world.create_topic("t", 1)
            answers.append(await world.connect().produce("t", 0, records_batch(b"a")))
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as stopped:
        await produce_once()
    assert stopped.group_contains(KeyTaken, match="not its own has the key")
    assert "so this gateway stops" in (sentence_of(stopped.value) or "")
    assert [each.error_code for each in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS]  # clients retry
    async with wire_world(settings, store=store, log=log) as world:
        answer = await world.connect().produce("t", 0, records_batch(b"b"))
        assert (answer.error_code, answer.base_offset) == (0, 0)
        await trio.sleep(100)  # of housekeeping
        [(key, body)] = store.taken.items()
        assert await store.get(key) == body
        assert await world.connect().fetch_values("t", 0, 0) == [b"b"]


async def test_a_store_that_fails_in_ways_of_its_own_is_asked_again(
    autojump_clock: MockClock,
) -> None:
    left = [RuntimeError("a bug of a plug-in"), KeyError("another")]

    def fail_at_first(store: OddStore, key: str) -> None:
        if left:
            raise left.pop()

    async with wire_world(store=OddStore(fail_at_first)) as world:
        await world.create_topic("t", 1)
        answer = await world.connect().produce("t", 0, records_batch(b"a"))
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert world.gateway.upkeep.failures["store a WAL object"] == 2


async def test_a_commit_that_cannot_be_decided_fails_only_its_object(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wire_world() as world:
        await world.create_topic("bad", 1)
        await world.create_topic("good", 1)
        commits = world.gateway.writes.writer._commits
        real = commits._is_append_time

        def is_append_time(topic: Any) -> bool:
            if topic.name == "bad":
                raise ValueError("what it holds says nothing")
            return real(topic)

        monkeypatch.setattr(commits, "_is_append_time", is_append_time)
        assert (
            await codes(world, "bad", "good", "bad", "good")
            == [
                ErrorCode.NOT_ENOUGH_REPLICAS,
                ErrorCode.NONE,
            ]
            * 2
        )
        monkeypatch.undo()
        assert await codes(world, "bad") == [ErrorCode.NONE]
        assert await world.connect().fetch_values("bad", 0, 0) == [b"x"]
        assert world.gateway.upkeep.failures["commit a WAL object"] == 2


async def codes(world: WireWorld, *topics: str) -> list[int]:
    """Produce to one topic after the other, with a new client each; return the error codes."""
    batch = records_batch(b"x")
    return [(await world.connect().produce(each, 0, batch)).error_code for each in topics]


@pytest.mark.parametrize("partitions", [[1], [1, 2]])
@pytest.mark.parametrize("version", [9, 12])
async def test_an_answer_that_cannot_be_given_closes_its_connection_and_no_other(
    partitions: list[int], version: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all later answers would wait behind the missing answer."""
    async with wire_world() as world:
        await world.create_topic("t", 3)
        writer = world.gateway.writes.writer
        real = writer.append

        def append(topic_id: bytes, partition: int, *rest: Any) -> None:
            batch, header, token, *flags = rest
            silent = Silent(token) if partition else token
            real(topic_id, partition, batch, header, silent, *flags)

        monkeypatch.setattr(writer, "append", append)
        request = produce_request([("t", each, records_batch(b"a")) for each in partitions])

        async def is_closed() -> None:
            with pytest.raises(Closed):
                await world.connect().call("Produce", version, request)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(is_closed)
            await trio.testing.wait_all_tasks_blocked()
            answer = await world.connect().produce("t", 0, records_batch(b"b"))
            assert answer.error_code == 0
        failures = world.gateway.upkeep.failures
        assert failures == {"answer a client that waits for a commit": len(partitions)}


@dataclass
class Silent:
    token: BatchToken

    @property
    def waiting_client(self) -> Client | None:
        return self.token.waiting_client

    def settle(self, outcome: object) -> None:
        raise ZeroDivisionError("planted")

    def abort(self) -> None:
        self.token.abort()

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        raise AssertionError
