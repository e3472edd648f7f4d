"""A restore does not use an older timeline if the copies of a newer one cannot be read."""

from __future__ import annotations

import msgspec
import pytest
from trio.testing import MockClock

from tests.worlds.backup_world import CLUSTER, back_up, batch_of, memory_store, restored, writers
from tidegate_coordination.backup.recovery import NothingToRestore, recover_from_copies
from tidegate_coordination.backup.shelf import Shelf
from tidegate_coordination.events.metadata_versions import LEVELS, NEWEST, ReleaseTooOld
from tidegate_coordination.log.metadata_log import Snapshot
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.objects.ownership import Owner
from tidegate_storage.stores.memory_store import MemoryObjectStore

OWNER = Owner(CLUSTER, 1, "0")
NEWER_FORMAT = LEVELS[NEWEST].snapshot_format + 1
NEWER: dict[str, object] = {"format": NEWER_FORMAT, "metadata_version": NEWEST + 1}


async def restored_once(store: MemoryObjectStore) -> MemoryLog:
    """A cluster in its second timeline, with copies of both."""
    first, second = MemoryLog(), MemoryLog()
    async with writers(first, store, 1) as [writer]:
        await writer.create_topic("t")
    await back_up(first, store)
    await restored(store, second)
    async with writers(second, store, 1) as [writer]:
        await writer.write(("t", batch_of(b"acknowledged")))
    await back_up(second, store)
    return second


async def keys(store: MemoryObjectStore, folder: str) -> list[str]:
    return [each.key for each in await store.list(f"{CLUSTER}/2/backup/{folder}")]


async def recover(store: MemoryObjectStore) -> ClusterState:
    return (await recover_from_copies(store, OWNER, lambda text: None)).state


def changed(snapshot: bytes, **fields: object) -> bytes:
    length = int.from_bytes(snapshot[:4])
    head = msgspec.msgpack.encode(msgspec.msgpack.decode(snapshot[4 : 4 + length]) | fields)
    return len(head).to_bytes(4) + head + snapshot[4 + length :]


@pytest.mark.parametrize("fields", [{"format": NEWER_FORMAT}, NEWER])
def test_a_snapshot_of_a_newer_release_is_not_taken_for_damage(fields: dict[str, object]) -> None:
    with pytest.raises(ReleaseTooOld, match="a newer one"):
        ClusterState.decode(changed(ClusterState().encode(), **fields))


async def test_a_release_that_is_too_old_restores_nothing(autojump_clock: MockClock) -> None:
    store = memory_store()
    log = await restored_once(store)
    snapshot = await log.load_snapshot()
    assert snapshot is not None
    newer = changed(b"".join(snapshot.chunks), **NEWER)
    await store.delete_many(await keys(store, ""))
    await Shelf(store, CLUSTER, 2).put_snapshot(Snapshot(snapshot.position, [newer]))
    with pytest.raises(ReleaseTooOld):
        await recover(store)


@pytest.mark.parametrize(
    ("folder", "missing"), [("snapshots/", False), ("snapshots/", True), ("entries/", False)]
)
async def test_copies_that_cannot_be_read_are_no_reason_to_go_back(
    folder: str, missing: bool, autojump_clock: MockClock
) -> None:
    store = memory_store()
    await restored_once(store)
    for key in await keys(store, folder):
        await store.delete_many([key])
        if not missing:
            await store.put(key, b"damaged")
    with pytest.raises(NothingToRestore, match=r"newest timeline, 2, cannot be read.*older"):
        await recover(store)
