"""A log of objects under trims, lost answers and damage; objects that return are not trusted."""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from tests.worlds import object_world
from tests.worlds.object_world import (
    PREFIX,
    WatchedStore,
    all_entries,
    entries,
    fill,
    names,
    opened,
)
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.logs.objects.log import ObjectLog
from tidegate_coordination.logs.objects.names import Kind, boundary_name, entry_name, frame
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, ObjectInfo

store, log = object_world.store, object_world.log

# -- names that return ----------------------------------------------------------------------------


async def trim_all(log: MetadataLog, end: int) -> None:
    """Like the housekeeper: a snapshot covers all entries up to the end."""
    await log.save_snapshot(end, [b"state"])
    await log.trim(end + 1)


async def test_a_writer_paused_across_a_trim_gets_nothing_in(
    store: WatchedStore, log: ObjectLog
) -> None:
    other = await opened(store)
    await fill(log, 1, 2)
    await fill(other, 3, 3)
    store.held[PREFIX + entry_name(3)] = trio.Event()  # a put that the network holds up
    results: list[AppendResult] = []

    async def append_late() -> None:
        results.append(await log.append(3, b"late"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append_late)
        await trio.testing.wait_all_tasks_blocked()
        await trim_all(other, 3)
        store.held.popitem()[1].set()
    assert results == [AppendResult.TRIMMED]
    assert await names(store, "entries/") == []
    assert await log.read(3, 100) == Trimmed(4)
    await fill(other, 4, 5)
    assert await log.read(4, 100) == entries(4, 5)


async def test_an_entry_of_a_dead_writer_below_the_boundary_is_never_read(
    store: WatchedStore,
) -> None:
    """The writer died between its PUT and its read of the boundary. A reader was paused."""
    writer, reader, fresh = [await opened(store) for _ in range(3)]
    await fill(writer, 1, 3)
    assert await reader.read(1, 100) == entries(1, 3)
    await fill(writer, 4, 6)
    await trim_all(writer, 5)
    late = frame(Kind.ENTRY, 4, b"late")
    await MemoryObjectStore.put(store, PREFIX + entry_name(4), late)
    await reader.wait(3, 60.0)  # finds the object, but does not trust it
    assert await reader.read(4, 100) == Trimmed(6)
    assert await (await opened(store)).read(4, 100) == Trimmed(6)
    assert await fresh.append(4, b"later still") is AppendResult.TRIMMED
    assert await fresh.append(5, b"later still") is AppendResult.TRIMMED
    assert await all_entries(fresh, 6) == entries(6, 6)
    await writer.trim(1)  # any trim cleans up
    assert await names(store, "entries/") == [entry_name(6)]


async def test_a_trim_between_entries_and_boundary_makes_a_read_void(
    store: WatchedStore,
) -> None:
    """If the boundary rose, a found entry may be a late PUT, so a read checks the boundary last."""
    writer, reader = await opened(store), await opened(store)
    await fill(writer, 1, 3)
    store.requests.clear()
    passed: list[str] = []
    get = store.get

    async def slow_get(key: str) -> bytes:
        passed.append(key)
        if "boundaries/" in key:  # after all entries
            store.get = get  # type: ignore[method-assign]
            await trim_all(writer, 3)
        return await get(key)

    store.get = slow_get  # type: ignore[method-assign]
    assert await reader.read(1, 100) == Trimmed(4)
    assert "boundaries/" in passed[-1]
    assert passed[0] == PREFIX + entry_name(1)


async def test_concurrent_trims_never_lower_the_boundary(
    store: WatchedStore, log: ObjectLog
) -> None:
    other = await opened(store)
    await fill(log, 1, 9)
    await other.trim(8)
    await log.trim(5)
    assert await log.read(7, 1) == Trimmed(8)
    await log.trim(9)
    assert await other.read(8, 1) == Trimmed(9)
    assert await names(store, "boundaries/") == [boundary_name(2), boundary_name(1)]
    assert await (await opened(store)).read(1, 1) == Trimmed(9)


async def test_concurrent_trims_both_succeed(store: WatchedStore, log: ObjectLog) -> None:
    other = await opened(store)
    await fill(log, 1, 9)
    store.held[PREFIX + boundary_name(1)] = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.trim, 8)
            await trio.testing.wait_all_tasks_blocked()
            release = store.held.popitem()[1]
            await other.trim(5)
            release.set()
    assert await log.read(7, 1) == Trimmed(8)
    assert await other.append(7, b"late") is AppendResult.TRIMMED


async def test_an_old_answer_does_not_lower_the_boundary(
    store: WatchedStore, log: ObjectLog
) -> None:
    await fill(log, 1, 9)
    slow = await opened(store)
    for position in (3, 6):
        await log.trim(position)
    get, release = store.get, trio.Event()

    async def late_once(key: str) -> bytes:
        store.get = get  # type: ignore[method-assign]
        body = await get(key)
        await release.wait()
        return body

    store.get = late_once  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.append, 1, b"late")
        await trio.testing.wait_all_tasks_blocked()
        assert await slow.read(5, 1) == Trimmed(6)
        release.set()
        await trio.testing.wait_all_tasks_blocked()
    store.requests.clear()
    assert await slow.read(5, 1) == Trimmed(6)
    assert store.requests == {}


async def test_a_stale_list_of_boundaries_is_good_enough(store: WatchedStore) -> None:
    log = await opened(store)
    await fill(log, 1, 6)
    for position in (2, 4, 6):
        await log.trim(position)
    listing = store.list

    async def stale(prefix: str, *, start_after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        infos = await listing(prefix, start_after=start_after)
        return [each for each in infos if each.key != PREFIX + boundary_name(3)][:limit]

    store.list = stale  # type: ignore[method-assign]
    assert await (await opened(store)).read(5, 1) == Trimmed(6)


# -- unknown outcomes ------------------------------------------------------------------------------


@pytest.mark.parametrize("after_effect", [False, True])
async def test_an_append_may_be_cut_at_every_request(
    store: WatchedStore, log: ObjectLog, after_effect: bool
) -> None:
    """If a cut append is repeated, as the coordinator does, the log holds each entry once."""
    fresh = await opened(store)
    for position in range(1, 9):
        store.heal()
        store.cut_at, store.cut_after_effect = 1 + position % 3, after_effect
        writer = log if position % 2 else fresh
        payload = b"%d" % position
        try:
            first = await writer.append(position, payload)
        except LogUnavailable:
            first = None
        store.heal()
        if first is None:
            assert await writer.append(position, payload) in (
                AppendResult.APPENDED,
                AppendResult.CONFLICT,
            )
        assert await writer.read(position, 100) == entries(position, position)
    assert await all_entries(await opened(store), 1) == entries(1, 8)


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_trim_may_be_killed_at_every_request(after_effect: bool) -> None:
    for cut_at in range(1, 40):
        store = WatchedStore()
        log = await opened(store)
        await fill(log, 1, 1200)
        await log.save_snapshot(1150, [b"state"])
        store.heal()
        store.cut_at, store.cut_after_effect = cut_at, after_effect
        try:
            await log.trim(1101)
        except LogUnavailable:
            killed = True
        else:
            killed = False
        store.heal()
        await check_half_trimmed(store)
        if not killed:
            assert cut_at > 5
            return
    raise AssertionError("it never came to its end")


async def check_half_trimmed(store: WatchedStore) -> None:
    """Check that the log is whole or trimmed to the boundary; the next trim completes it."""
    log = await opened(store)
    first = await log.read(1, 1)
    start = first.first_position if isinstance(first, Trimmed) else 1
    assert start in (1, 1101)
    assert await all_entries(log, start) == entries(start, 1200)
    assert len(await names(store, "entries/")) == 1200 or start == 1101
    assert await log.load_snapshot() == (1150, [b"state"])
    await log.trim(1101)
    assert await names(store, "entries/") == [entry_name(each) for each in range(1101, 1201)]


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_snapshot_may_be_killed_at_every_request(after_effect: bool) -> None:
    for cut_at in range(1, 40):
        store = WatchedStore()
        log = await opened(store)
        await fill(log, 1, 1)
        for position in (1, 2, 3):
            await log.save_snapshot(position, [b"old", b"%d" % position])
        store.heal()
        store.cut_at, store.cut_after_effect = cut_at, after_effect
        try:
            await log.save_snapshot(4, [b"new", b"", b"newest"])
        except LogUnavailable:
            killed = True
        else:
            killed = False
        store.heal()
        other = await opened(store)
        assert await other.load_snapshot() in ((3, [b"old", b"3"]), (4, [b"new", b"", b"newest"]))
        await check_no_garbage_stays(store, other)
        if not killed:
            assert cut_at > 5
            return
    raise AssertionError("it never came to its end")


async def check_no_garbage_stays(store: WatchedStore, log: MetadataLog) -> None:
    for position in (5, 6):
        await log.save_snapshot(position, [b"later"])
    assert await log.load_snapshot() == (6, [b"later"])
    assert len(await names(store, "snapshots/")) == 2
    assert len(await names(store, "chunks/")) == 2


async def test_chunks_of_a_save_under_way_are_kept(store: WatchedStore, log: ObjectLog) -> None:
    await log.save_snapshot(5, [b"five"])
    store.held[PREFIX + "nothing"] = trio.Event()
    put, release = store.put, trio.Event()

    async def slow_put(key: str, body: Buffer) -> None:
        if "snapshots/" in key and "-000001-" in key and f"{7:020}" in key:
            await release.wait()
        await put(key, body)

    store.put = slow_put  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.save_snapshot, 7, [b"seven"])
        await trio.testing.wait_all_tasks_blocked()
        await (await opened(store)).save_snapshot(6, [b"six"])
        release.set()
    assert await log.load_snapshot() == (7, [b"seven"])


# -- damage ---------------------------------------------------------------------------------------


async def replace(store: WatchedStore, name: str, change: Callable[[bytes], bytes]) -> None:
    body = await MemoryObjectStore.get(store, PREFIX + name)
    await MemoryObjectStore.delete_many(store, [PREFIX + name])
    await MemoryObjectStore.put(store, PREFIX + name, change(body))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: body[:-1] + b"7", "entry 2 .* fails its checksum"),
        (lambda body: body[:-1], "entry 2 .* fails its checksum"),
        (lambda body: body[:5], "entry 2 .* is cut short"),
        (lambda body: frame(Kind.ENTRY, 3, b"3"), "entry 2 .* holds something else"),
        (lambda body: frame(Kind.BOUNDARY, 2, b"3"), "entry 2 .* holds something else"),
    ],
)
async def test_a_damaged_entry_is_noticed(
    store: WatchedStore, log: ObjectLog, change: Callable[[bytes], bytes], words: str
) -> None:
    await fill(log, 1, 3)
    await replace(store, entry_name(2), change)
    reader = await opened(store)
    assert await reader.read(1, 100) == entries(1, 1)
    with pytest.raises(LogCorrupt, match=words):
        await reader.read(2, 100)


async def test_bytes_damaged_on_their_way_are_read_again(
    store: WatchedStore, log: ObjectLog
) -> None:
    await fill(log, 1, 2)
    await log.trim(2)
    await log.save_snapshot(2, [b"state"])
    get, seen = store.get, set[str]()

    async def damaged(key: str) -> bytes:
        body = await get(key)
        if key in seen or key.endswith("format.json"):
            return body
        seen.add(key)
        return body[:-1] + bytes((body[-1] ^ 1,))

    store.get = damaged  # type: ignore[method-assign]
    reader = await opened(store)
    assert await reader.read(1, 100) == Trimmed(2)
    assert await reader.read(2, 100) == entries(2, 2)
    seen.clear()
    assert await reader.load_snapshot() == (2, [b"state"])


@pytest.mark.parametrize("missing", [1, 2, 3])
async def test_a_missing_entry_is_noticed(
    store: WatchedStore, log: ObjectLog, missing: int
) -> None:
    await fill(log, 1, 40)
    await store.delete_many([PREFIX + entry_name(missing)])
    reader = await opened(store)
    if missing > 1:
        assert await reader.read(1, 1 << 20) == entries(1, missing - 1)
    with pytest.raises(LogCorrupt, match=f"entry {missing} is missing"):
        await reader.read(missing, 100)


async def test_a_bucket_put_back_from_an_old_copy_is_noticed(
    store: WatchedStore, log: ObjectLog
) -> None:
    await fill(log, 1, 3)
    await store.delete_many([PREFIX + entry_name(each) for each in (2, 3)])
    fresh = await opened(store)
    with pytest.raises(LogCorrupt, match="entry 3 is not in the log"):
        await fresh.read(4, 100)
    with pytest.raises(LogCorrupt, match="entry 3 is not in the log"):
        await fresh.append(4, b"4")


async def test_two_snapshots_are_kept_and_damage_falls_back(
    store: WatchedStore, log: ObjectLog
) -> None:
    for position in (1, 2, 3):
        await log.save_snapshot(position, [b"state", b"%d" % position])
    heads, chunks = await names(store, "snapshots/"), await names(store, "chunks/")
    assert (len(heads), len(chunks)) == (2, 4)
    await store.delete_many([PREFIX + chunks[-1]])
    assert await log.load_snapshot() == (2, [b"state", b"2"])
    await replace(store, heads[0], lambda body: b"x")
    with pytest.raises(LogCorrupt, match="chunks instead of 2"):
        await log.load_snapshot()
