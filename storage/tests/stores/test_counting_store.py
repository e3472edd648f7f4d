"""A counting store passes each request on unchanged, and counts it once."""

from __future__ import annotations

import pytest

from tidegate_storage.stores.counting_store import CountingStore, Request, RequestSums
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import NoSuchObject, ObjectExists


async def test_each_request_is_booked_whether_it_succeeds_or_not() -> None:
    book = RequestSums()
    store = CountingStore(MemoryObjectStore(), book)
    await store.put("a/b", b"12345")
    with pytest.raises(ObjectExists):
        await store.put("a/b", b"12345")
    assert await store.get("a/b") == b"12345"
    assert await store.get_range("a/b", 1, 2) == b"23"
    with pytest.raises(NoSuchObject):
        await store.get("a/c")
    assert [each.key for each in await store.list("a/")] == ["a/b"]
    await store.delete_many([f"a/{number}" for number in range(1001)])
    await store.delete_many([])

    assert book.requests == {
        Request.PUT: 2,
        Request.GET: 3,
        Request.LIST: 1,
        Request.DELETE: 2,
    }
    assert (book.stored_bytes, book.got_bytes) == (5, 7)
    assert not store.requests_cost_money
    await store.aclose()
