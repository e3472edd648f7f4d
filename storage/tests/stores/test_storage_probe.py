from __future__ import annotations

from collections.abc import Sequence

from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import (
    Buffer,
    ObjectExists,
    ObjectInfo,
    StoreMisconfigured,
    StoreUnavailable,
)
from tidegate_storage.stores.probe import probe_store


class OverwritingStore(MemoryObjectStore):
    """Accepts every put, as stores do that ignore If-None-Match."""

    async def put(self, key: str, body: Buffer) -> None:
        while True:
            try:
                return await super().put(key, body)
            except ObjectExists:
                await self.delete_many([key])


class DeafStore(MemoryObjectStore):
    async def put(self, key: str, body: Buffer) -> None:
        raise StoreUnavailable("no answer in 30 s")


class DeafInRace(MemoryObjectStore):
    """Answers a put only if no other put is under way."""

    async def put(self, key: str, body: Buffer) -> None:
        if key.endswith("race"):
            raise StoreUnavailable("no answer in 30 s")
        await super().put(key, body)


class RefusingStore(MemoryObjectStore):
    """Refuses every call for lack of permission."""

    async def put(self, key: str, body: Buffer) -> None:
        raise StoreMisconfigured("give Tidegate credentials")


class UnlistedStore(MemoryObjectStore):
    """Permits every call but list."""

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        raise StoreMisconfigured("give Tidegate credentials")


class LyingStore(MemoryObjectStore):
    """Answers ObjectExists to all creators of a race."""

    async def put(self, key: str, body: Buffer) -> None:
        if key.endswith("race"):
            raise ObjectExists(key)
        await super().put(key, body)


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


async def test_a_store_that_does_not_answer_is_the_only_finding() -> None:
    findings = await probe_store(DeafStore())
    assert [(each.ok, each.what, each.is_last) for each in findings] == [
        (False, "creates objects", True)
    ]
    assert findings[0].advice == "no answer in 30 s"


async def test_a_store_silent_during_the_race_is_not_reported_as_losing_data() -> None:
    store = DeafInRace()
    *good, last = await probe_store(store)
    assert await store.list("") == []
    assert [each.ok for each in good] == [True, True]
    assert (last.what, last.is_last) == ("lets one of several creators win", True)
    assert last.advice == "no answer in 30 s"


async def test_a_store_that_refuses_all_puts_is_one_finding() -> None:
    (last,) = await probe_store(RefusingStore())
    assert (last.ok, last.advice, last.is_last) == (False, "give Tidegate credentials", True)


async def test_each_missing_permission_is_named() -> None:
    bad = [each for each in await probe_store(UnlistedStore()) if not each.ok]
    assert [each.what for each in bad] == ["lists objects in order", "deletes objects"]


async def test_a_race_without_a_winner_is_not_reported_as_losing_data() -> None:
    (lost, *_) = [each for each in await probe_store(LyingStore()) if not each.ok]
    assert lost.what == "lets one of several creators win"
    assert "which was never stored: this store is not consistent" in lost.advice
