from __future__ import annotations

from collections.abc import Sequence

from tidegate_storage.memory_store import MemoryObjectStore
from tidegate_storage.object_store import Buffer, ObjectExists, ObjectInfo, StoreUnavailable
from tidegate_storage.probe import probe_store


class OverwritingStore(MemoryObjectStore):
    """Takes every put, as stores do that pass over If-None-Match."""

    async def put(self, key: str, body: Buffer) -> None:
        while True:
            try:
                return await super().put(key, body)
            except ObjectExists:
                await self.delete_many([key])


class DeafStore(MemoryObjectStore):
    async def put(self, key: str, body: Buffer) -> None:
        raise StoreUnavailable("no answer in 30 s")


class HoardingStore(MemoryObjectStore):
    async def delete_many(self, keys: Sequence[str]) -> None:
        pass


class ForgetfulStore(MemoryObjectStore):
    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        return (await super().list(prefix, start_after=start_after, limit=limit))[1:]


async def test_a_good_store_has_only_good_findings_and_is_left_empty() -> None:
    store = MemoryObjectStore()
    findings = await probe_store(store)
    assert len(findings) == 7
    assert all(finding.ok and finding.what and not finding.advice for finding in findings)
    assert await store.list("") == []


async def test_a_store_that_overwrites_is_refused() -> None:
    findings = await probe_store(OverwritingStore())
    bad = [finding for finding in findings if not finding.ok]
    assert {finding.what for finding in bad} >= {
        "refuses to create an object twice",
        "lets one of several creators win",
    }
    assert all("Tidegate would lose data here" in finding.advice for finding in bad[:2])


async def test_each_broken_promise_is_named() -> None:
    for store, what in (
        (DeafStore(), "creates objects"),
        (HoardingStore(), "deletes objects"),
        (ForgetfulStore(), "lists objects in order"),
    ):
        bad = [finding for finding in await probe_store(store) if not finding.ok]
        assert what in [finding.what for finding in bad]
        assert all(finding.advice for finding in bad)
