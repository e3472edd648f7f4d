"""Every store keeps the contract that we publish."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.worlds import gcs_fake
from tidegate_storage.disk.memory_disk import MemoryDisk, MemoryDiskSteps
from tidegate_storage.stores.contract import CONTRACT, Check
from tidegate_storage.stores.file_store import FileObjectStore
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import ObjectStore


def _memory(request: pytest.FixtureRequest) -> ObjectStore:
    return MemoryObjectStore()


def _memory_disk(request: pytest.FixtureRequest) -> ObjectStore:
    return FileObjectStore(MemoryDisk(MemoryDiskSteps()))


def _file(request: pytest.FixtureRequest) -> ObjectStore:
    folder: Path = request.getfixturevalue("tmp_path")
    return open_store(f"file:{folder}/new/objects")


def _s3(request: pytest.FixtureRequest) -> ObjectStore:
    url: str = request.getfixturevalue("seaweed_s3_url")
    return open_store(url.replace("?", f"/{secrets.token_hex(4)}/objects?"))


def _gs(request: pytest.FixtureRequest) -> ObjectStore:
    url: str = request.getfixturevalue("gcs_fake_url")
    return open_store(url.replace("?", f"/{secrets.token_hex(4)}/objects?"))


@pytest.fixture
def gcs_fake_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", gcs_fake.TOKEN)
    with gcs_fake.running_gcs_fake() as (url, _):
        yield url


@pytest.fixture(
    params=[_memory, _memory_disk, _file, _gs, pytest.param(_s3, marks=pytest.mark.slow)]
)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[ObjectStore]:
    make: Callable[[pytest.FixtureRequest], ObjectStore] = request.param
    made = make(request)
    yield made
    await made.aclose()


@pytest.mark.parametrize("check", CONTRACT)
async def test_store_keeps_the_contract(store: ObjectStore, check: Check) -> None:
    await check(store, "contract/")


async def test_the_root_can_be_listed(store: ObjectStore) -> None:
    for key in ("b/c", "a"):
        await store.put(key, b"x")
    assert [info.key for info in await store.list("")] == ["a", "b/c"]
    assert [info.key for info in await store.list("", start_after="a")] == ["b/c"]
