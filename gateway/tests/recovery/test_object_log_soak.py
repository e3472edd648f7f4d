"""Writers, readers and trims on a log of objects whose store fails as real stores do."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import trio
from trio.testing import MockClock

from tidegate_coordination.log.metadata_log import AppendResult, LogUnavailable, Trimmed
from tidegate_coordination.log.snapshots import save_verified, trim_below_verified
from tidegate_coordination.logs.objects.log import ObjectLog, open_objects
from tidegate_simulation.plans.store_faults import StoreFaults
from tidegate_simulation.world.faulty.store import FaultyStore
from tidegate_simulation.world.tasks.scheduling import seeded_scheduling
from tidegate_storage.stores.memory_store import MemoryObjectStore

SEEDS = range(1, 9)
WRITERS = 4
PAYLOADS = 25
# Late puts outlive many trims.
FAULTS = StoreFaults(
    lost_put=0.03,
    ambiguous_put=0.05,
    late_put=0.1,
    read_error=0.03,
    truncated_get=0.02,
    flipped_bit=0.02,
    delete_error=0.2,
    slow=0.2,
    slow_seconds=2.0,
    late_seconds=60.0,
)


class Account:
    def __init__(self) -> None:
        self.landed: Counter[str] = Counter()

    def is_due(self, kind: str) -> bool:
        return False

    def count(self, kind: str, times: int = 1) -> None:
        self.landed[kind] += times


@dataclass
class World:
    """truth: the payload of each position as one replica has read it; all others must agree."""

    rng: Random
    late: trio.Nursery
    store: MemoryObjectStore = field(default_factory=lambda: MemoryObjectStore(lambda: 0.0))
    truth: dict[int, bytes] = field(default_factory=dict[int, bytes])
    certain: set[bytes] = field(default_factory=set[bytes])
    account: Account = field(default_factory=Account)

    async def open(self, faults: StoreFaults = FAULTS) -> ObjectLog:
        faulty = FaultyStore(self.store, faults, Random(self.rng.random()), self.late, self.account)
        while True:
            try:
                return await open_objects(
                    faulty, "", new_nonce=lambda: f"{self.rng.getrandbits(64):x}", in_loop=True
                )
            except LogUnavailable:
                await trio.sleep(0.1)

    def believe(self, position: int, payload: bytes) -> None:
        assert self.truth.setdefault(position, payload) == payload, f"two entries at {position}"

    async def zombies(self) -> int:
        boundary = await (await self.open(StoreFaults())).read(1, 1)
        first = boundary.first_position if isinstance(boundary, Trimmed) else 1
        listed = await self.store.list("entries/")
        return sum(int(each.key.rpartition("/")[2]) < first for each in listed)


class LeftBehind(Exception):
    """The log was trimmed past a replica's position, so the outcome of its append is uncertain."""


@dataclass
class Replica:
    """Writes as the coordinator does: it repeats an append until the outcome is certain."""

    world: World
    log: ObjectLog
    position: int = 0

    async def place(self, payload: bytes) -> None:
        """Append a payload; raises LeftBehind."""
        while not await self._attempt(payload):
            pass
        self.world.certain.add(payload)

    async def _attempt(self, payload: bytes) -> bool:
        try:
            result = await self.log.append(self.position + 1, payload)
            if result is not AppendResult.APPENDED:
                return await self.catch_up(payload)
        except LogUnavailable:
            await trio.sleep(0.1)
            return False
        self.position += 1
        self.world.believe(self.position, payload)
        return True

    async def catch_up(self, payload: bytes = b"") -> bool:
        """Read up to the payload or the end; return whether the payload was found."""
        while page := await self.log.read(self.position + 1, 100):
            if isinstance(page, Trimmed):
                self.position = page.first_position - 1
                raise LeftBehind
            for entry in page:
                self.world.believe(*entry)
                self.position = entry.position
                if entry.payload == payload:
                    return True
        return False


async def write(world: World, writer: int) -> None:
    replica = Replica(world, await world.open())
    for number in range(PAYLOADS):
        with suppress(LeftBehind):
            await replica.place(b"%d.%d" % (writer, number))
        await trio.sleep(world.rng.random() * 8)


async def follow(world: World) -> None:
    """Read on; sleep long now and then, so that trims happen meanwhile."""
    replica = Replica(world, await world.open())
    while True:
        with suppress(LogUnavailable, LeftBehind):
            await replica.log.wait(replica.position, 1.0)
            await replica.catch_up()
        await trio.sleep(world.rng.choice((0, 0, 1, 30)))


async def trim(world: World) -> None:
    replica = Replica(world, await world.open())
    while True:
        await trio.sleep(world.rng.random() * 10)
        with suppress(LogUnavailable, LeftBehind):
            await replica.catch_up()
            if replica.position:
                await save_verified(replica.log, replica.position, [b"%d" % replica.position])
                await trim_below_verified(replica.log, keep_entries=world.rng.randrange(3))


async def soak(seed: int) -> Counter[str]:
    async with trio.open_nursery() as late:
        world = World(Random(seed), late)
        async with trio.open_nursery() as nursery:
            for task in (follow, follow, trim, trim):
                nursery.start_soon(task, world)
            async with trio.open_nursery() as writers:
                for writer in range(WRITERS):
                    writers.start_soon(write, world, writer)
            nursery.cancel_scope.cancel()
    await check_end(world)
    return world.account.landed + Counter(zombies=await world.zombies())


async def check_end(world: World) -> None:
    """Check that each acknowledged payload is there once, and a fresh replica reads the same."""
    counts = Counter(world.truth.values())
    assert all(counts[payload] == 1 for payload in world.certain)
    assert sorted(world.truth) == list(range(1, len(world.truth) + 1))
    fresh = Replica(world, await world.open(StoreFaults()))
    with suppress(LeftBehind):  # the next read begins at the first kept entry
        await fresh.catch_up()
    await fresh.catch_up()
    assert fresh.position == len(world.truth)


def soaked(seed: int) -> Counter[str]:
    with seeded_scheduling(seed):
        return trio.run(soak, seed, clock=MockClock(autojump_threshold=0))


def test_all_believe_the_same_whatever_the_store_does() -> None:
    landed = sum(map(soaked, SEEDS), Counter[str]())
    for kind in ("late_put", "ambiguous_put", "lost_put", "flipped_bit", "delete_error"):
        assert landed[f"store.{kind}"] > 0, kind
    assert landed["zombies"] > 0
    assert soaked(SEEDS[0]) == soaked(SEEDS[0])
