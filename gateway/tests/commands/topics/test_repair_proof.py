"""A repair skips records only if it proves that they are lost and that the store works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
import trio
import trio.testing

from tests.fetch.test_fetch_holes import filled, key_of, rows
from tests.worlds.fetch_world import World, batch, fetch_world
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway.tools import proof
from tidegate_gateway.tools.proof import (
    LOOKS,
    Evidence,
    Refusal,
    Verdict,
    is_many,
    pauses,
    refusal,
    verdict,
)
from tidegate_gateway.tools.readability import SAMPLE, Found, Problem, Sight
from tidegate_gateway.tools.repair import Demands, Repair
from tidegate_gateway.tools.witness import Answers
from tidegate_storage.objects.ownership import claim_prefix
from tidegate_storage.stores.object_store import (
    Buffer,
    NoSuchObject,
    ObjectInfo,
    ObjectStore,
    StoreUnavailable,
    object_exists,
)

GONE = Sight(Problem.MISSING, is_listed=False, exists=False)
SPOILT = Sight(Problem.CORRUPT, is_listed=True, exists=True)
WHOLE = Sight(None, is_listed=True, exists=True)
MUTE = Sight(Problem.UNKNOWN, is_listed=None, exists=None)


@pytest.mark.parametrize(
    ("sights", "expected"),
    [
        ([GONE] * 4, Verdict.LOST),
        ([SPOILT] * 4, Verdict.DAMAGED),
        ([WHOLE] * 4, Verdict.WELL),
        ([GONE, GONE, WHOLE, GONE], Verdict.UNSTEADY),
        ([SPOILT, WHOLE], Verdict.UNSTEADY),
        ([GONE, SPOILT], Verdict.UNSTEADY),
        ([GONE, MUTE, GONE], Verdict.SILENT),
        ([MUTE] * 4, Verdict.SILENT),
        ([GONE, MUTE, WHOLE], Verdict.UNSTEADY),
        ([Sight(Problem.MISSING, is_listed=True, exists=False)], Verdict.UNSTEADY),
        ([Sight(Problem.MISSING, is_listed=False, exists=True)], Verdict.UNSTEADY),
        ([Sight(Problem.MISSING, is_listed=None, exists=False)], Verdict.SILENT),
        ([Sight(Problem.MISSING, is_listed=False, exists=None)], Verdict.SILENT),
        ([Sight(Problem.CORRUPT, is_listed=False, exists=True)], Verdict.UNSTEADY),
        ([Sight(None, is_listed=True, exists=False)], Verdict.UNSTEADY),
    ],
)
def test_a_run_is_lost_only_if_all_looks_agree(sights: list[Sight], expected: Verdict) -> None:
    assert verdict(sights) is expected


@pytest.mark.parametrize(
    ("wanted", "others", "contradictions", "lost", "even_if_many", "expected"),
    [
        ([Verdict.LOST], [Verdict.WELL], 0, 1, False, None),
        ([Verdict.DAMAGED, Verdict.LOST], [], 0, 2, False, None),
        ([Verdict.LOST], [Verdict.LOST], 0, 1, False, None),
        ([Verdict.LOST], [Verdict.WELL, Verdict.UNSTEADY], 0, 1, False, Refusal.UNSTEADY),
        ([Verdict.LOST, Verdict.UNSTEADY], [], 0, 1, False, Refusal.UNSTEADY),
        ([Verdict.LOST, Verdict.WELL], [], 0, 1, False, Refusal.UNSTEADY),
        ([Verdict.LOST], [Verdict.WELL], 1, 1, True, Refusal.UNSTEADY),
        ([Verdict.LOST], [Verdict.SILENT], 0, 1, True, Refusal.SILENT),
        ([Verdict.SILENT], [Verdict.WELL], 0, 1, False, Refusal.SILENT),
        ([Verdict.LOST], [Verdict.WELL], 0, 6, False, Refusal.MANY),
        ([Verdict.LOST], [Verdict.WELL], 0, 6, True, None),
    ],
)
def test_nothing_is_skipped_while_the_store_is_in_doubt(
    wanted: Sequence[Verdict],
    others: Sequence[Verdict],
    contradictions: int,
    lost: int,
    even_if_many: bool,
    expected: Refusal | None,
) -> None:
    evidence = Evidence(tuple(wanted), tuple(others), contradictions, 100, lost)
    assert refusal(evidence, even_if_many=even_if_many) is expected


@pytest.mark.parametrize(
    ("lost", "objects", "expected"),
    [(3, 3, False), (4, 4, True), (4, 79, True), (4, 80, False), (5, 100, False), (6, 100, True)],
)
def test_more_than_a_few_per_cent_are_many(lost: int, objects: int, expected: bool) -> None:
    assert is_many(lost, objects) is expected


def test_the_looks_are_spread_over_the_whole_time() -> None:
    assert list(pauses(180.0)) == [0.0, 60.0, 60.0, 60.0]


def test_a_sample_of_many_runs_stays_small() -> None:
    found = Found()
    row = RunRow(0, 1, 0, 0, 0, 0, 0, 0)
    for number in range(10_000):
        found.add_good((number, row))
    numbers = [number for number, _ in found.sample]
    assert SAMPLE <= len(numbers) < 2 * SAMPLE
    assert numbers == sorted(numbers)
    assert numbers[-1] > 9_000


def test_answers_that_contradict_each_other_are_counted() -> None:
    answers = Answers()
    answers.found("a", 0, b"one")
    answers.found("a", 0, b"one")
    answers.found("a", 3, b"two")
    answers.missed("b")
    answers.missed("b")
    assert answers.contradictions == 0
    answers.found("a", 0, b"0ne")
    assert answers.contradictions == 1
    answers.found("b", 0, b"x")
    assert answers.contradictions == 2


# -- on a store -----------------------------------------------------------------------------------


class IllStore:
    """A view of a store whose every second ranged GET fails; LIST and HEAD answer right.

    spoil: how a GET fails.  All views share one count, as connections share the store.
    """

    requests_cost_money = False
    reads = 0

    def __init__(self, store: ObjectStore, spoil: Callable[[str, bytes], bytes]) -> None:
        self._store = store
        self._spoil = spoil

    async def put(self, key: str, body: Buffer) -> None:
        await self._store.put(key, body)

    async def get(self, key: str) -> bytes:
        return await self._store.get(key)

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        IllStore.reads += 1
        body = bytes(await self._store.get_range(key, start, length))
        return self._spoil(key, body) if IllStore.reads % 2 else body

    async def exists(self, key: str) -> bool:
        return await object_exists(self._store, key)

    async def delete_many(self, keys: Sequence[str]) -> None:
        await self._store.delete_many(keys)

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        return await self._store.list(prefix, start_after=start_after, limit=limit)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def missing(key: str, body: bytes) -> bytes:
    raise NoSuchObject(key)


def flipped(key: str, body: bytes) -> bytes:
    return bytes(each ^ 0x55 for each in body)


def silent(key: str, body: bytes) -> bytes:
    raise StoreUnavailable("away")


async def repair_of(
    world: World, fresh: Callable[[], ObjectStore] | None = None, *, even_if_many: bool = False
) -> Repair:
    """Return an operator's repair.  world: has no incarnation afterwards."""
    state = world.state
    await claim_prefix(world.store, state.cluster_id, timeline=state.timeline, created_by="x")
    await world.coordinator.catch_up()
    world.coordinator.incarnation = 0
    fresh = fresh or (lambda: world.store)
    return Repair(
        world.coordinator,
        fresh(),
        fresh=fresh,
        demands=Demands(even_if_many=even_if_many),
        rng=Random(1),
        software_version="0",
    )


async def repaired(world: World, repair: Repair) -> tuple[Refusal | None, int]:
    """Repair as the command does; return the refusal, and the number of skipped runs."""
    numbers = [world.partition("t").number]
    found = await repair.look(numbers)
    refused = await repair.prove(found.unreadable, found)
    if refused is not None or not found.unreadable:
        return refused, 0
    got = await repair.skip(found.unreadable, numbers, lambda _: None)
    return got.refusal, len(got.done)


@pytest.mark.parametrize("spoil", [missing, flipped])
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("first_read", [0, 1])
async def test_no_record_is_skipped_while_every_second_read_fails(
    spoil: Callable[[str, bytes], bytes],
    lost: int,
    first_read: int,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world, 60)
        IllStore.reads = first_read
        await other.store.delete_many([key_of(world, row) for row in rows(world)[:lost]])
        repair = await repair_of(other, lambda: IllStore(other.store, spoil))
        assert (await repaired(other, repair))[1] == 0
        assert len(rows(other)) == 60
        if lost:
            assert (await repaired(other, repair))[0] is Refusal.UNSTEADY


async def test_objects_that_are_really_gone_or_damaged_are_skipped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world, 40)
        gone, spoilt = rows(world)[7], rows(world)[9]
        await world.store.delete_many([key_of(world, gone)])
        world.store.damage(key_of(world, spoilt), spoilt.position + 70)
        repair = await repair_of(other)
        began = trio.current_time()

        assert await repaired(other, repair) == (None, 2)

        assert trio.current_time() - began >= proof.DEFAULT_PROOF_SECONDS
        assert len(rows(other)) == 38


async def test_each_look_opens_the_store_anew(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world)
        await world.store.delete_many([key_of(world, rows(world)[0])])
        opened = 0

        def fresh() -> ObjectStore:
            nonlocal opened
            opened += 1
            return other.store

        repair = await repair_of(other, fresh)
        assert await repaired(other, repair) == (None, 1)
        assert opened == 1 + LOOKS


async def test_an_object_that_only_get_misses_is_not_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The reader may lack the right to read it, or the store's index is broken."""
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world)
        hidden = key_of(world, rows(world)[2])

        def spoil(key: str, body: bytes) -> bytes:
            if key == hidden:
                raise NoSuchObject(key)
            return body

        class Steady(IllStore):
            async def get_range(self, key: str, start: int, length: int) -> Buffer:
                return spoil(key, bytes(await self._store.get_range(key, start, length)))

        repair = await repair_of(other, lambda: Steady(other.store, spoil))
        assert await repaired(other, repair) == (Refusal.UNSTEADY, 0)


async def test_a_prefix_that_is_gone_needs_a_word_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world, 20)
        await world.store.delete_many([key_of(world, row) for row in rows(world)[:12]])
        assert await repaired(other, await repair_of(other)) == (Refusal.MANY, 0)
        insisting = await repair_of(other, even_if_many=True)
        assert await repaired(other, insisting) == (None, 12)


async def test_a_store_that_falls_silent_proves_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world)
        await world.create("u")
        await world.write(("u", 0, batch("x")))
        await world.store.delete_many([key_of(world, rows(world)[0])])
        repair = await repair_of(other)
        found = await repair.look([world.partition("t").number])

        def on_look(number: int, pause: float) -> None:
            other.store.is_away = number == 3

        assert await repair.prove(found.unreadable, found, on_look) is Refusal.SILENT


# -- a planted bug --------------------------------------------------------------------------------


async def test_without_the_proof_readable_records_are_skipped(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """This planted bug shows that the tests above notice a proof that proves nothing."""

    async def believes(*_: object) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(Repair, "prove", believes)
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world, 60)
        rng = Random(3)

        class Now(IllStore):
            async def get_range(self, key: str, start: int, length: int) -> Buffer:
                body = bytes(await self._store.get_range(key, start, length))
                return missing(key, body) if rng.random() < 0.5 else body

        repair = await repair_of(other, lambda: Now(other.store, missing))
        assert (await repaired(other, repair))[1] > 0
