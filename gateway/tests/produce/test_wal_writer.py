"""The WAL writer: when it seals, in which order it commits, and what a failing store costs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest
import trio
import trio.testing

from tests.worlds.wal_world import make_writer
from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.events.cluster import TopicCreated
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.proposal import NOTHING, Decided, View
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome, Refusal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.produce.wal_commits import Client
from tidegate_gateway.produce.wal_settings import WalSettings
from tidegate_gateway.produce.wal_writer import WalWriter
from tidegate_protocol.records import Record, build_batch, check_batch
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, StoreUnavailable

TOPIC = b"t" * 16


class Store(MemoryObjectStore):
    """put_seconds: how long each put takes, in order of their begin; None: it fails for ever."""

    def __init__(self, put_seconds: list[float | None]) -> None:
        super().__init__()
        self.requests_cost_money = True
        self.put_seconds = put_seconds
        self.begun: list[str] = []

    async def put(self, key: str, body: Buffer) -> None:
        if key not in self.begun:
            self.begun.append(key)
        place = self.begun.index(key)
        seconds = self.put_seconds[min(place, len(self.put_seconds) - 1)]
        if seconds is None:
            raise StoreUnavailable("planted")
        await trio.sleep(seconds)
        await super().put(key, body)


@dataclass(frozen=True)
class CreateTopic:
    reads: frozenset[str] = field(default=NOTHING, init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[None]:
        return Decided((TopicCreated(TOPIC, "t", 3, 1, {}),), None)


@dataclass
class Waiting:
    """Remembers when its batch was settled."""

    outcomes: list[BatchOutcome] = field(default_factory=list[BatchOutcome])
    at: float = -1.0
    waiting_client: Client | None = None

    def settle(self, outcome: BatchOutcome) -> None:
        self.outcomes.append(outcome)
        self.at = trio.current_time()

    def abort(self) -> None:
        raise AssertionError

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        raise AssertionError


class Fixture:
    def __init__(self, store: Store, coordinator: Coordinator, writer: WalWriter) -> None:
        self.store = store
        self.coordinator = coordinator
        self.writer = writer
        self.started = trio.current_time()

    def append(
        self, size_bytes: int = 10, partition: int = 0, client: Client | None = None
    ) -> Waiting:
        batch = build_batch([Record(0, 1, None, bytes(size_bytes))])
        waiting = Waiting(waiting_client=client)
        header = check_batch(memoryview(batch))
        self.writer.append(TOPIC, partition, batch, header, waiting)
        return waiting

    def since_start(self, waiting: Waiting) -> float:
        return round(waiting.at - self.started, 3)


@asynccontextmanager
async def running(
    put_seconds: list[float | None], settings: WalSettings | None = None
) -> AsyncIterator[Fixture]:
    store = Store(put_seconds)
    coordinator = Coordinator(
        MemoryLog(), ClusterState(), rng=Random(0), wall_clock=lambda: 1_000_000.0
    )
    writer = make_writer(store, coordinator, settings or WalSettings())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        coordinator.incarnation = int(
            str(await coordinator.propose(Register(1, "key", "az", (), "0", "cluster")))
        )
        await coordinator.propose(CreateTopic())
        nursery.start_soon(writer.run)
        yield Fixture(store, coordinator, writer)
        nursery.cancel_scope.cancel()


async def test_an_idle_writer_waits_for_nothing_but_its_put(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running([0.06]) as fixture:
        waiting = [fixture.append() for _ in range(5)]
        await fixture.writer.drain()
        assert [each.outcomes[0].base_offset for each in waiting] == [0, 1, 2, 3, 4]
        assert {fixture.since_start(each) for each in waiting} == {0.06}
        assert len(fixture.store.begun) == 1


async def test_uploads_overtake_each_other_and_commits_do_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running([3.0, 1.0, 2.0]) as fixture:
        waiting: list[Waiting] = []
        for _ in range(3):
            waiting.append(fixture.append())
            await trio.sleep(0.01)
        await fixture.writer.drain()
        assert [each.outcomes[0].base_offset for each in waiting] == [0, 1, 2]
        assert [fixture.since_start(each) for each in waiting] == [3.0, 3.0, 3.0]


class Leaver:
    """A client that may have closed its connection.  asked: how often the writer asked."""

    def __init__(self, *, is_gone: bool) -> None:
        self.gone = is_gone
        self.asked = 0

    def is_gone(self) -> bool:
        self.asked += 1
        return self.gone


@pytest.mark.parametrize(("put_seconds", "is_late"), [(4.9, False), (5.0, True)])
async def test_batches_of_clients_that_left_a_late_object_are_not_written(
    put_seconds: float, is_late: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """The clients send them again elsewhere: in an outage one record was stored up to ten times."""
    left, stayed = Leaver(is_gone=True), Leaver(is_gone=False)
    async with running([put_seconds]) as fixture:
        waiting = [fixture.append(client=each) for each in (left, stayed, left, None)]
        await fixture.writer.drain()
        offsets = [each.outcomes[0].base_offset for each in waiting]
        assert offsets == ([-1, 0, -1, 1] if is_late else [0, 1, 2, 3])
        assert (left.asked, stayed.asked) == ((1, 1) if is_late else (0, 0))
        if is_late:
            assert waiting[0].outcomes[0].refusal is Refusal.ABANDONED
        assert fixture.writer.counters.left_batches == (2 if is_late else 0)


async def test_no_later_batch_of_a_client_that_left_is_written_either(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The log takes any first sequence of a producer, and would refuse the earlier one for ever."""
    left, stayed = Leaver(is_gone=True), Leaver(is_gone=False)
    async with running([6.0, 1.0]) as fixture:
        first = [fixture.append(client=each) for each in (left, stayed)]
        await trio.sleep(5.5)
        later = [fixture.append(client=each) for each in (left, stayed, None)]
        await fixture.writer.drain()
        assert [each.outcomes[0].base_offset for each in first] == [-1, 0]
        assert [each.outcomes[0].base_offset for each in later] == [-1, 1, 2]
        assert fixture.writer.counters.left_batches == 2


async def test_a_late_object_without_clients_is_committed_empty(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """An abandoned id would mark the gateway (marks.py), though it has just stored an object."""
    async with running([6.0]) as fixture:
        waiting = fixture.append(client=Leaver(is_gone=True))
        await fixture.writer.drain()
        assert waiting.outcomes[0].refusal is Refusal.ABANDONED
        assert fixture.writer.counters.left_batches == 1
        objects = fixture.coordinator.state.objects
        assert list(objects.dead) == [0]
        assert not objects.is_newest_abandoned(fixture.coordinator.incarnation)


async def test_an_upload_that_never_ends_is_abandoned_and_the_order_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running([None, 1.0]) as fixture:
        lost = fixture.append()
        await trio.sleep(0.01)
        kept = fixture.append()
        await fixture.writer.drain()
        assert lost.outcomes[0].refusal is Refusal.ABANDONED
        assert kept.outcomes[0].base_offset == 0
        assert fixture.since_start(lost) == 30.0
        assert list(fixture.coordinator.state.objects.dead) == [0]


async def test_no_later_batch_overtakes_one_that_was_abandoned(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The log takes any first sequence of a producer, and would refuse the earlier one for ever."""
    behind, other = Leaver(is_gone=False), Leaver(is_gone=False)
    async with running([None, 1.0]) as fixture:
        lost = fixture.append(client=behind)
        await trio.sleep(0.01)
        later = [fixture.append(client=each) for each in (behind, other, None)]
        await fixture.writer.drain()
        later.append(fixture.append(client=behind))
        await fixture.writer.drain()
        assert [each.outcomes[0].base_offset for each in later] == [-1, 0, 1, -1]
        refusals = {each.outcomes[0].refusal for each in (lost, later[0], later[-1])}
        assert refusals == {Refusal.ABANDONED}


async def test_a_full_object_waits_for_a_slot_and_appends_for_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    settings = WalSettings(max_object_bytes=1000, upload_slots=1)
    async with running([1.0], settings) as fixture:
        fixture.append(2000)
        await trio.sleep(0.01)
        assert fixture.writer.has_room
        second = fixture.append(2000)
        assert not fixture.writer.has_room
        await fixture.writer.wait_for_room()
        assert round(trio.current_time() - fixture.started, 3) == 1.0
        await fixture.writer.drain()
        assert second.outcomes[0].base_offset == 1


async def test_small_objects_linger_once_the_budget_is_spent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    settings = WalSettings(put_budget_per_second=1.0, linger_seconds=0.25)
    async with running([0.0], settings) as fixture:
        for _ in range(100):
            last = fixture.append()
            await trio.sleep(0.01)
        await fixture.writer.drain()
        # The budget has 60 tokens, and gets one more a second.  Later batches wait for the linger.
        assert 60 <= len(fixture.store.begun) <= 64
        assert fixture.since_start(last) <= 0.99 + 0.25


async def test_a_commit_with_an_unknown_outcome_is_neither_settled_nor_abandoned(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running([0.0], WalSettings(max_in_flight_bytes=1)) as fixture:
        kinds: list[str] = []

        def submit(
            proposal: object, deliver: object, fail: Callable[[CoordinatorUnavailable], None]
        ) -> None:
            kinds.append(type(proposal).__name__)
            fail(CoordinatorUnavailable("it is of a newer release"))

        monkeypatch.setattr(fixture.coordinator, "submit", submit)
        client = Leaver(is_gone=False)
        waiting = fixture.append(client=client)
        await fixture.writer.drain()
        monkeypatch.undo()
        after = [fixture.append(client=each) for each in (None, client)]
        await fixture.writer.drain()
        assert kinds == ["CommitWal"]
        assert not waiting.outcomes
        # If the first batch was not committed, a later batch of its client must not be, either.
        assert [each.outcomes[0].base_offset for each in after] == [0, -1]
