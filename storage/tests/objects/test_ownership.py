from __future__ import annotations

import pytest

from tidegate_storage.objects.keys import OWNER_KEY
from tidegate_storage.objects.ownership import Owner, claim_prefix
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import StoreMisconfigured


async def test_a_prefix_is_claimed_once_and_found_again() -> None:
    store = MemoryObjectStore()
    owner = await claim_prefix(store, "mine", timeline=1, created_by="0.1.0")
    assert owner == Owner("mine", 1, "0.1.0")
    assert await claim_prefix(store, "mine", timeline=2, created_by="0.2.0") == owner
    marker = b'{"cluster_id":"mine","timeline":1,"created_by":"0.1.0"}'
    assert await store.get(OWNER_KEY) == marker


async def test_another_clusters_prefix_is_refused() -> None:
    store = MemoryObjectStore()
    await claim_prefix(store, "theirs", timeline=1, created_by="0.1.0")
    with pytest.raises(StoreMisconfigured, match="cluster theirs owns this prefix"):
        await claim_prefix(store, "mine", timeline=1, created_by="0.1.0")


@pytest.mark.parametrize("marker", [b"", b"not json", b"[]", b'{"cluster_id": 3}'])
async def test_a_marker_that_tidegate_did_not_write_is_refused(marker: bytes) -> None:
    store = MemoryObjectStore()
    await store.put(OWNER_KEY, marker)
    with pytest.raises(StoreMisconfigured, match="was not written by Tidegate"):
        await claim_prefix(store, "mine", timeline=1, created_by="0.1.0")


async def test_a_newer_marker_with_more_fields_is_read() -> None:
    store = MemoryObjectStore()
    await store.put(OWNER_KEY, b'{"cluster_id":"mine","timeline":1,"created_by":"9","more":[]}')
    assert (await claim_prefix(store, "mine", timeline=1, created_by="1")).created_by == "9"
