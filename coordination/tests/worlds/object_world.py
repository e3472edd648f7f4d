"""An object store that tests can watch, hold up and cut short, and logs in it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest
import trio
import trio.testing

from tidegate_coordination.log.metadata_log import AppendResult, LogEntry, MetadataLog, Trimmed
from tidegate_coordination.log_contract.contract import verify_log
from tidegate_coordination.logs.objects.log import ObjectLog, open_objects
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, ObjectInfo, StoreUnavailable

PREFIX = "log/"

T = TypeVar("T")


class WatchedStore(MemoryObjectStore):
    """Counts requests; can cut a request short, before or after its effect, and delay one."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)
        self.requests: Counter[str] = Counter()
        self.cut_at = 0  # the number of the request; all later ones fail too
        self.cut_after_effect = False
        self.held: dict[str, trio.Event] = {}  # puts of a key wait for these

    async def put(self, key: str, body: Buffer) -> None:
        if key in self.held:
            await self.held[key].wait()
        await self._counted("put", lambda: super(WatchedStore, self).put(key, body))

    async def get(self, key: str) -> bytes:
        return await self._counted("get", lambda: super(WatchedStore, self).get(key))

    async def delete_many(self, keys: Sequence[str]) -> None:
        await self._counted("delete", lambda: super(WatchedStore, self).delete_many(keys))

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        listing = super().list
        return await self._counted(
            "list", lambda: listing(prefix, start_after=start_after, limit=limit)
        )

    async def _counted(self, kind: str, call: Callable[[], Awaitable[T]]) -> T:
        self.requests[kind] += 1
        number = self.requests.total()
        if self.cut_at and number >= self.cut_at:
            if number == self.cut_at and self.cut_after_effect:
                await call()
            raise StoreUnavailable("cut short")
        return await call()

    def heal(self) -> None:
        self.cut_at = 0
        self.requests.clear()


@pytest.fixture
def store() -> WatchedStore:
    return WatchedStore()


@pytest.fixture
async def log(store: WatchedStore) -> ObjectLog:
    return await opened(store)


async def opened(store: WatchedStore) -> ObjectLog:
    return await open_objects(store, PREFIX, in_loop=True)


async def fill(log: MetadataLog, first: int, last: int) -> None:
    for position in range(first, last + 1):
        assert await log.append(position, b"%d" % position) is AppendResult.APPENDED


def entries(first: int, last: int) -> list[LogEntry]:
    return [LogEntry(position, b"%d" % position) for position in range(first, last + 1)]


async def names(store: WatchedStore, folder: str) -> list[str]:
    found = await MemoryObjectStore.list(store, PREFIX + folder, limit=10_000)
    return [each.key.removeprefix(PREFIX) for each in found]


async def all_entries(log: MetadataLog, from_position: int) -> list[LogEntry]:
    found: list[LogEntry] = []
    while page := await log.read(from_position + len(found), 1 << 20):
        assert not isinstance(page, Trimmed)
        found += page
    return found


async def broken_promises(open_one: Callable[[], Awaitable[MetadataLog]]) -> list[object]:
    broken: list[object] = []
    await verify_log(open_one, lambda *row: None if row[1] else broken.append(row))
    return broken
