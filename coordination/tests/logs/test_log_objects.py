"""A log of objects: the contract, what it costs, and clear refusals."""

import secrets
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.worlds import gcs_fake, object_world
from tests.worlds.object_world import (
    PREFIX,
    WatchedStore,
    all_entries,
    broken_promises,
    entries,
    fill,
    opened,
)
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import (
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.logs.objects.log import ObjectLog, open_objects
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer

store, log = object_world.store, object_world.log

# -- the contract ---------------------------------------------------------------------------------


async def test_a_log_of_objects_keeps_the_contract_in_memory(
    store: WatchedStore, autojump_clock: MockClock
) -> None:
    assert await broken_promises(lambda: opened(store)) == []


async def test_a_log_of_objects_keeps_the_contract_in_files(tmp_path: Path) -> None:
    async def open_one() -> MetadataLog:
        return await open_objects(open_store(f"file:{tmp_path}/objects"), PREFIX)

    assert await broken_promises(open_one) == []


async def test_a_log_of_objects_keeps_the_contract_in_s3(seaweed_s3_url: str) -> None:
    url = seaweed_s3_url.replace("?", f"/{secrets.token_hex(4)}?")
    assert await broken_promises(lambda: open_log(url)) == []


async def test_a_log_of_objects_keeps_the_contract_on_a_fake_of_gcs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", gcs_fake.TOKEN)
    with gcs_fake.running_gcs_fake() as (url, bucket):
        assert await broken_promises(lambda: open_log(url.replace("?", "/log?"))) == []
    assert bucket.answers["PUT", 412] > 0
    assert not [each for each in bucket.answers if each[1] == 501]


# -- what it costs --------------------------------------------------------------------------------


async def test_an_append_is_a_put_and_a_get(store: WatchedStore, log: ObjectLog) -> None:
    store.requests.clear()
    await fill(log, 1, 100)
    assert store.requests == {"put": 100, "get": 100}


async def test_ones_own_entries_are_read_for_nothing(store: WatchedStore, log: ObjectLog) -> None:
    await fill(log, 1, 50)
    store.requests.clear()
    assert await log.read(1, 1 << 20) == entries(1, 50)
    assert store.requests == {}


async def test_an_entry_that_is_there_is_read_though_no_bytes_are_asked_for(
    store: WatchedStore, log: ObjectLog
) -> None:
    for position, max_bytes in ((1, 0), (2, -1)):
        other = await opened(store)
        assert await other.read(position, 10) == []  # so it has seen the end
        await fill(log, position, 1)
        assert await other.read(position, max_bytes) == entries(position, 1)


async def test_two_gets_find_the_end_of_the_log(store: WatchedStore, log: ObjectLog) -> None:
    await fill(log, 1, 3)
    store.requests.clear()
    assert await log.read(4, 1 << 20) == []
    assert store.requests == {"get": 2, "list": 1}  # which is requested once
    assert await log.read(4, 1 << 20) == []
    assert store.requests == {"get": 4, "list": 1}


async def test_a_long_log_is_read_with_many_gets_at_once(
    store: WatchedStore, log: ObjectLog, autojump_clock: MockClock
) -> None:
    await fill(log, 1, 1000)
    get = store.get

    async def slow_get(key: str) -> bytes:
        await trio.sleep(1)
        return await get(key)

    store.get = slow_get  # type: ignore[method-assign]
    reader = await opened(store)
    began = trio.current_time()
    store.requests.clear()
    assert await all_entries(reader, 1) == entries(1, 1000)
    assert trio.current_time() - began < 60
    assert store.requests["get"] < 1100
    assert store.requests["list"] < 10


async def test_a_read_is_bounded(store: WatchedStore, log: ObjectLog) -> None:
    large = b"x" * 500_000
    for position in range(1, 61):
        await log.append(position, large)
    reader, got = await opened(store), 0
    store.requests.clear()
    page = await reader.read(1, 5_000_000)
    assert not isinstance(page, Trimmed)
    assert len(page) == 10
    assert store.requests["get"] <= 20
    while page := await reader.read(1 + got, 5_000_000):
        assert not isinstance(page, Trimmed)
        assert sum(len(each.payload) for each in page) <= 5_000_000
        got += len(page)
    assert got == 60


async def test_waiting_looks_more_and_more_seldom(
    store: WatchedStore, log: ObjectLog, autojump_clock: MockClock
) -> None:
    store.requests.clear()
    with trio.move_on_after(60):
        for _ in range(60):
            await log.wait(0, 1.0)
    assert 55 < store.requests["get"] < 70


async def test_a_wait_sees_entries_of_other_gateways(
    store: WatchedStore, log: ObjectLog, autojump_clock: MockClock
) -> None:
    other = await opened(store)
    for position, idle_seconds in ((1, 0.01), (2, 100.0), (3, 0.01)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.wait, position - 1, 1000.0)
            await trio.sleep(idle_seconds)
            began = trio.current_time()
            await other.append(position, b"%d" % position)
        assert trio.current_time() - began <= (0.06 if idle_seconds < 1 else 1.01)
        assert await log.read(position, 1) == entries(position, position)


async def test_waiting_sees_ones_own_append_at_once(
    log: ObjectLog, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.wait, 0, 1000.0)
        await trio.sleep(10.1)
        await log.append(1, b"here")
    assert trio.current_time() == 10.1


# -- refusals -------------------------------------------------------------------------------------


class _Overwrites(WatchedStore):
    """A store that does not know If-None-Match."""

    async def put(self, key: str, body: Buffer) -> None:
        await self.delete_many([key])
        await super().put(key, body)


async def test_a_store_that_overwrites_is_refused() -> None:
    store = _Overwrites()
    for _ in range(2):
        with pytest.raises(LogMisconfigured, match="ignores create-if-absent"):
            await opened(store)


async def test_a_newer_format_is_refused_and_not_changed() -> None:
    store = _Overwrites()
    await MemoryObjectStore.put(store, PREFIX + "format.json", b'{"format": 2, "more": []}')
    with pytest.raises(LogMisconfigured, match="format 2; this release reads 1"):
        await opened(store)
    assert store.requests == {"get": 2}  # read twice, since bytes can be damaged in transit


async def test_objects_of_other_programs_are_refused(store: WatchedStore) -> None:
    await store.put(PREFIX + "format.json", b"precious")
    with pytest.raises(LogMisconfigured, match="use an empty prefix"):
        await opened(store)


async def test_opening_asks_few_requests(store: WatchedStore, log: ObjectLog) -> None:
    await fill(log, 1, 9)
    for position in range(2, 9):
        await log.trim(position)
    store.requests.clear()
    await opened(store)
    assert store.requests == {"get": 4, "put": 1, "list": 1}


async def test_a_trim_past_the_end_is_refused_unless_the_log_is_new(
    store: WatchedStore, log: ObjectLog
) -> None:
    await log.trim(70)
    assert await log.read(69, 1) == Trimmed(70)
    await fill(log, 70, 71)
    fresh = await opened(store)
    with pytest.raises(LogMisuse, match="the log ends before"):
        await fresh.trim(73)
    await fresh.trim(72)
    with pytest.raises(LogMisuse, match="the log ends before"):
        await (await opened(store)).trim(73)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("s3:", "the URL names no bucket"),
        ("s3:///x?secret_access_key=hidden", "names no bucket"),
        ("s3://bucket?secret_access_key=hidden", "does not take secret_access_key; it takes"),
        ("s3://key:hidden@bucket/x", "leave credentials out of the URL"),
        ("s3://bucket?endpoint=http://me:hidden@h", "leave credentials out of the URL"),
        ("az://container", "the URL cannot be opened"),
    ],
)
async def test_a_wrong_url_is_a_sentence_without_secrets(url: str, sentence: str) -> None:
    with pytest.raises(LogMisconfigured, match=sentence) as refused:
        await open_log(url)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "variable", "sentence"),
    [
        (("tidegate-tests", "tidegate-none"), "", "create the bucket"),
        (("", ""), "AWS_SECRET_ACCESS_KEY", "check AWS_ACCESS_KEY_ID and AWS_SECRET"),
        (("", ""), "AWS_ACCESS_KEY_ID", "check AWS_ACCESS_KEY_ID and AWS_SECRET"),
    ],
)
async def test_errors_that_a_user_can_fix_are_one_sentence(
    seaweed_s3_url: str,
    change: tuple[str, str],
    variable: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable:
        monkeypatch.setenv(variable, "wrong-and-hidden")
    url = seaweed_s3_url.replace(*change).replace("?", "/refused?")
    with pytest.raises(LogMisconfigured, match=sentence) as refused:
        await open_log(url)
    assert "tidegate-test-secret" not in str(refused.value)
    assert "wrong-and-hidden" not in str(refused.value)


async def test_an_unreachable_server_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    with pytest.raises(LogUnavailable) as refused:
        await open_log("s3://bucket/x?endpoint=http://127.0.0.1:1&region=us-east-1")
    assert "hidden" not in str(refused.value)
