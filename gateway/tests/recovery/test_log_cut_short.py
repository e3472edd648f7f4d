"""No gateway starts on a log whose end was lost, because the copies show how far it reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

import pytest
import trio
from trio.testing import MockClock

from tests.recovery.test_backup_gateway import ends_with, produce, restored, start
from tests.worlds.wire_client import WireWorld, wire_world
from tidegate_coordination.backup.copier import Copier
from tidegate_coordination.coordinator.loading import load_state
from tidegate_coordination.events.entries import encode_entry
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogUnavailable,
    Trimmed,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.upkeep.prefixes import see_prefix
from tidegate_storage.objects.keys import wal_key
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import ObjectInfo, StoreUnavailable

LOST = "its copies in the object store reach up to"


async def without_last(log: MemoryLog, count: int) -> MemoryLog:
    """Return the log of a standby that lacks the last `count` entries."""
    entries = await log.read(1, 1 << 30)
    assert not isinstance(entries, Trimmed)
    shorter = MemoryLog()
    for each in entries[:-count]:
        assert await shorter.append(*each) is AppendResult.APPENDED
    return shorter


async def copied_cluster(store: MemoryObjectStore) -> MemoryLog:
    """Make a cluster with records, and copy its log; all gateways have left."""
    log = MemoryLog()
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
        await produce(world, "t", b"0", b"1")
        await world.gateway.keepers.backup.copy_once()
    return log


async def test_a_start_on_a_cut_log_is_refused_and_writes_nothing(
    autojump_clock: MockClock,
) -> None:
    store = MemoryObjectStore()
    short = await without_last(await copied_cluster(store), 2)
    entries, keys = await short.read(1, 1 << 30), [each.key for each in await store.list("")]
    with ends_with(LogMisconfigured, rf"ends at position \d+, but {LOST}"):
        await start(store, short)
    assert await short.read(1, 1 << 30) == entries
    assert [each.key for each in await store.list("")] == keys


async def test_a_life_that_began_is_not_lost_unnoticed(autojump_clock: MockClock) -> None:
    """The registration is copied at once; otherwise its incarnation would be used again."""
    store = MemoryObjectStore()
    log = await copied_cluster(store)
    state = await load_state(log, deadline_seconds=inf)
    async with wire_world(store=store, log=log) as world:
        await trio.sleep(1)
        await produce(world, "t", b"2")
    entries = await log.read(state.position + 1, 1 << 30)
    assert not isinstance(entries, Trimmed)
    with ends_with(LogMisconfigured, LOST):
        await start(store, await without_last(log, len(entries)))


@pytest.mark.parametrize("others_copied", [False, True])
async def test_nothing_is_lost_unnoticed_behind_gateways_that_left(
    autojump_clock: MockClock, others_copied: bool
) -> None:
    """others_copied: another gateway, or a person, has copied the log since this gateway's last
    copy.
    """
    store = MemoryObjectStore()
    log = await copied_cluster(store)
    async with wire_world(store=store, log=log) as world:
        await trio.sleep(1)
        await produce(world, "t", b"2")
        if others_copied:
            state = world.gateway.coordinator.state
            report = await Copier(log, store, state.cluster_id, state.timeline).copy()
            assert report.entries
        await world.gateway.drain()
    with ends_with(LogMisconfigured, LOST):
        await start(store, await without_last(log, 1))


async def test_the_last_copy_is_tried_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryObjectStore()
    log = await copied_cluster(store)
    errors = iter([StoreUnavailable("no route"), LogUnavailable("no route")])
    async with wire_world(store=store, log=log) as world:
        await trio.sleep(1)
        backup = world.gateway.keepers.backup
        real = backup.copy_once

        async def copy_once(*, even_if_others_do: bool = False) -> None:
            for error in errors:
                raise error
            await real(even_if_others_do=even_if_others_do)

        monkeypatch.setattr(backup, "copy_once", copy_once)
        await world.gateway.drain()
    with ends_with(LogMisconfigured, LOST):
        await start(store, await without_last(log, 1))


async def test_a_log_that_lost_only_uncopied_entries_goes_unnoticed(
    autojump_clock: MockClock,
) -> None:
    """All gateways were killed, and the entries after the last copy are lost."""
    store = MemoryObjectStore()
    log = await copied_cluster(store)
    async with wire_world(store=store, log=log) as world:
        await trio.sleep(1)
        await produce(world, "t", b"2")
    async with wire_world(store=store, log=await without_last(log, 1)) as world:
        assert await world.connect().fetch_values("t", 0, 0) == [b"0", b"1"]


async def written_on(log: MemoryLog, count: int) -> MemoryLog:
    """Return a standby's log that has other entries in place of the last `count` ones."""
    fork = await without_last(log, count)
    position = (await load_state(fork, deadline_seconds=inf)).position
    for at in range(1, count + 5):
        entry = encode_entry(b"fork", 0, 0, [], position=position + at, entry_format=2)
        assert await fork.append(position + at, entry) is AppendResult.APPENDED
    return fork


async def test_a_log_that_was_cut_and_then_grew_is_refused(autojump_clock: MockClock) -> None:
    store = MemoryObjectStore()
    fork = await written_on(await copied_cluster(store), 2)
    keys = [each.key for each in await store.list("")]
    with ends_with(LogMisconfigured, "another entry than its copies"):
        await start(store, fork)
    assert [each.key for each in await store.list("")] == keys


class Rough(MemoryLog):
    """damaged, away: how many reads of a single entry return damage, or fail.

    Only the comparison of the log with its copies reads a single entry.
    """

    def __init__(self, damaged: int = 0, away: int = 0) -> None:
        super().__init__()
        self._damaged, self._away = damaged, away

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        found = await super().read(from_position, max_bytes)
        if max_bytes > 1 or isinstance(found, Trimmed):
            return found
        if self._away:
            self._away -= 1
            raise LogUnavailable("away")
        if self._damaged:
            self._damaged -= 1
            return [each._replace(payload=each.payload[:-1] + b"?") for each in found]
        return found


async def copied_to(log: MemoryLog, other: MemoryLog) -> MemoryLog:
    """Fill a log with the entries of another."""
    entries = await log.read(1, 1 << 30)
    assert not isinstance(entries, Trimmed)
    for each in entries:
        assert await other.append(*each) is AppendResult.APPENDED
    return other


async def test_damage_on_the_way_is_not_another_log(autojump_clock: MockClock) -> None:
    store = MemoryObjectStore()
    log = await copied_to(await copied_cluster(store), Rough(damaged=1))
    async with wire_world(store=store, log=log):
        pass


async def test_lasting_damage_of_a_copy_is_named(autojump_clock: MockClock) -> None:
    store = MemoryObjectStore()
    log = await copied_to(await copied_cluster(store), Rough(damaged=2))
    with ends_with(LogCorrupt, "damaged"):
        await start(store, log)


async def test_a_log_that_is_away_for_a_moment_is_compared_later(
    autojump_clock: MockClock,
) -> None:
    store = MemoryObjectStore()
    log = await copied_to(await copied_cluster(store), Rough(away=3))
    async with wire_world(store=store, log=log):
        pass


class Switched(MemoryLog):
    """A log that `other` replaces at some moment, while gateways use it."""

    def __init__(self) -> None:
        super().__init__()
        self.other: MemoryLog | None = None

    async def append(self, position: int, payload: bytes) -> AppendResult:
        if self.other is not None:
            return await self.other.append(position, payload)
        return await super().append(position, payload)

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        if self.other is not None:
            return await self.other.read(from_position, max_bytes)
        return await super().read(from_position, max_bytes)


async def test_under_gateways_that_run_it_is_noticed_and_no_orphan_is_deleted(
    autojump_clock: MockClock,
) -> None:
    """A seeming orphan may be an object that the lost entries named."""
    store, log = MemoryObjectStore(), Switched()
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
    orphan = wal_key("cluster-of-tests", 1, "az1", 1, 1, 99)
    await store.put(orphan, b"named by what is lost")
    with ends_with(LogMisconfigured, "another entry than its copies"):
        async with wire_world(store=store, log=log) as world:
            await produce(world, "t", b"0")
            await world.gateway.keepers.backup.copy_once()
            await produce(world, "t", b"1")
            log.other = await written_on(log, 3)
            with pytest.raises(LogMisconfigured):
                await world.gateway.keepers.housekeeper.orphans.run_once()
            assert await store.get(orphan)
            await trio.sleep(61)
            raise AssertionError("it runs on")


async def test_the_orphan_scan_copies_the_log_before_it_deletes(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
    orphan = wal_key("cluster-of-tests", 1, "az1", 1, 1, 99)
    await store.put(orphan, b"left behind")
    async with wire_world(store=store, log=log) as world:
        await trio.sleep(1)
        await produce(world, "t", b"0")
        position = world.gateway.coordinator.state.position
        assert world.gateway.keepers.backup.status.position < position
        assert await world.gateway.keepers.housekeeper.orphans.run_once() == 1
        assert world.gateway.keepers.backup.status.position >= position
    assert not [each for each in await store.list("") if each.key == orphan]


async def test_its_restore_is_taken(autojump_clock: MockClock) -> None:
    """The restored log has a new timeline with its own copies."""
    store, log = MemoryObjectStore(), MemoryLog()
    await copied_cluster(store)
    assert (await restored(store, log)).timeline == 2
    async with wire_world(store=store, log=log) as world:
        assert await world.connect().fetch_values("t", 0, 0) == [b"0", b"1"]
        await produce(world, "t", b"2")
        await world.gateway.keepers.backup.copy_once()
    async with wire_world(store=store, log=log) as world:
        assert await world.connect().fetch_values("t", 0, 0) == [b"0", b"1", b"2"]


class Late(MemoryObjectStore):
    """A store that lists the copies of a log only after other gateways have continued."""

    def __init__(self) -> None:
        super().__init__()
        self.others_go_on: trio.Event | None = None
        self.went_on = trio.Event()

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        if self.others_go_on is not None and "/backup/" in prefix:
            self.others_go_on.set()
            await self.went_on.wait()
        return await super().list(prefix, start_after=start_after, limit=limit)


@dataclass(frozen=True, slots=True)
class SlowStart:
    """A start that listed the copies late.  position: the end of the log when the start began."""

    log: MemoryLog
    position: int
    found: ClusterState


async def slow_start(
    others_do: Callable[[WireWorld, MemoryLog], Awaitable[None]],
) -> SlowStart:
    """Start beside a gateway; others_do: what happens while the store lists the copies."""
    store, log = Late(), MemoryLog()
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
        before = await load_state(log, deadline_seconds=inf)
        position = before.position
        store.others_go_on = trio.Event()

        async def go_on(asked: trio.Event) -> None:
            await asked.wait()
            store.others_go_on = None
            await others_do(world, log)
            store.went_on.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on, store.others_go_on)
            found = await see_prefix(store, log, before, 2, deadline_seconds=inf)
        return SlowStart(log, position, found)


async def test_entries_that_others_append_and_copy_during_a_start_are_no_loss(
    autojump_clock: MockClock,
) -> None:
    async def append_and_copy(world: WireWorld, log: MemoryLog) -> None:
        await produce(world, "t", b"0")
        await world.gateway.keepers.backup.copy_once()

    slow = await slow_start(append_and_copy)
    assert slow.found.position > slow.position


async def test_others_may_trim_entries_that_a_slow_start_has_not_read(
    autojump_clock: MockClock,
) -> None:
    async def append_and_trim(world: WireWorld, log: MemoryLog) -> None:
        for value in b"0", b"1", b"2":
            await produce(world, "t", value)
        newest = await load_state(log, deadline_seconds=inf)
        await log.save_snapshot(newest.position, [newest.encode()])
        await log.trim(newest.position + 1)

    slow = await slow_start(append_and_trim)
    assert not isinstance(await slow.log.read(slow.found.position + 1, 1), Trimmed)
    assert isinstance(await slow.log.read(slow.position + 1, 1), Trimmed)


class AwayForAMoment(MemoryObjectStore):
    """A store that fails the first listings of the copies."""

    failures = 3

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        if "/backup/" in prefix and self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        return await super().list(prefix, start_after=start_after, limit=limit)


async def test_a_store_that_is_away_for_a_moment_is_asked_again(autojump_clock: MockClock) -> None:
    store, log = AwayForAMoment(), MemoryLog()
    async with wire_world(store=store, log=log):
        pass
    assert store.failures == 3
    async with wire_world(store=store, log=log):
        assert store.failures == 0


async def test_a_cluster_whose_log_is_not_copied_starts(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    for _ in range(2):
        async with wire_world({"log.backup.interval.ms": "0"}, store=store, log=log):
            pass
