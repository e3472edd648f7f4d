"""`tidegate inspect`: the content of objects, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.worlds.fetch_world import NOW_MS, batch, fetch_world
from tidegate_coordination.object_names.standing import Standing, standing_of
from tidegate_coordination.rules.records.wal import AbandonWal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_gateway.cli.inspect.command import InspectOptions, run_inspect
from tidegate_gateway.tools.inspection import NotOurs, Scanned, look_at, scan
from tidegate_gateway.tools.object_sources import StoredObject, Windowed, stored_object
from tidegate_protocol.batches import set_base_offset
from tidegate_storage.objects.corrupt import UnknownVersion
from tidegate_storage.objects.segments import FinalBatch, SegmentBuilder
from tidegate_storage.objects.wal import OpenWal
from tidegate_storage.objects.wal_format import WalIdentity
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import NoSuchObject

TOPIC = bytes(range(16))
KEY = "c/1/wal/az1/7-3/000000000005"


def wal_object(slices: int = 3, batches: int = 2) -> bytearray:
    wal = OpenWal()
    for partition in range(slices):
        for number in range(batches):
            data = batch(f"{partition}-{number}", "x" * 50, timestamp=NOW_MS + number)
            wal.append(TOPIC, partition, data, 2, NOW_MS + number, None)
    return wal.seal(WalIdentity(7, 3, 5)).body


def segment(batches: int = 6) -> bytearray:
    builder = SegmentBuilder(TOPIC, 1, 100, chunk_bytes=300)
    for number in range(batches):
        data = bytearray(batch(f"{number}", "x" * 50))
        offset = 100 + 2 * number
        set_base_offset(data, 0, base_offset=offset, leader_epoch=0)
        builder.append(FinalBatch(data, offset + 2, 2, NOW_MS + 1))
    return builder.seal(100 + 2 * batches).body


@pytest.fixture(autouse=True)
def logs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the command from changing the logging of this process, which runs the tests."""
    monkeypatch.setattr("tidegate_gateway.cli.inspect.command.configure_logs", lambda _: None)


async def source_of(body: bytes | bytearray) -> StoredObject:
    store = MemoryObjectStore(lambda: 0.0)
    await store.put(KEY, bytes(body))
    return await stored_object(store, KEY)


async def inspected(body: bytes | bytearray) -> tuple[Any, list[Scanned]]:
    source = Windowed(await source_of(body), 100)
    frame = await look_at(source)
    return frame, [await scan(source, each, lambda batch: None) for each in frame.stretches]


def problems(frame: Any, found: list[Scanned]) -> list[str]:
    return [*frame.problems, *(problem for each in found for problem in each.problems)]


async def test_a_whole_wal_object() -> None:
    frame, found = await inspected(wal_object())

    assert (frame.kind, frame.version, frame.identity) == ("wal", (1, 1), WalIdentity(7, 3, 5))
    assert [(each.entry.topic_id, each.entry.partition) for each in frame.stretches] == [
        (TOPIC, partition) for partition in range(3)
    ]
    assert [(each.batches, each.records) for each in found] == [(2, 4)] * 3
    assert not problems(frame, found)


async def test_a_whole_segment() -> None:
    frame, found = await inspected(segment())

    assert (frame.kind, frame.version) == ("segment", (1, 0))
    assert frame.place == (TOPIC, 1, 100, 112)
    assert len(found) == 2
    assert sum(each.records for each in found) == 12
    assert not problems(frame, found)


@pytest.mark.parametrize("make", [wal_object, segment])
async def test_no_byte_can_change_unnoticed(make: Any) -> None:
    body = make()
    rng = Random(1)
    for position in range(len(body)):
        damaged = bytearray(body)
        damaged[position] ^= 1 << rng.randrange(8)
        try:
            frame, found = await inspected(damaged)
        except UnknownVersion:
            assert position in (8, 9)
            continue
        assert problems(frame, found), f"byte {position} of {len(body)}"


@pytest.mark.parametrize("make", [wal_object, segment])
async def test_inspect_shows_a_truncated_object_up_to_its_end(make: Any) -> None:
    body = make()
    for size in range(16, len(body)):
        frame, found = await inspected(body[:size])
        assert frame.problems
        for each in found:
            assert each.batches <= 6
    frame, found = await inspected(body[: len(body) - 30])
    assert sum(each.batches for each in found) == 6


async def test_a_damaged_batch_hides_none_behind_it() -> None:
    body = wal_object(slices=1, batches=3)
    body[32 + 70] ^= 1
    seen: list[tuple[int, bool]] = []
    source = await source_of(body)
    frame = await look_at(source)

    found = await scan(source, frame.stretches[0], lambda b: seen.append((b.position, b.is_whole)))

    assert [whole for _, whole in seen] == [False, True, True]
    assert found.problems[0] == "the CRC of the batch at byte 32 is wrong"


async def test_inspect_refuses_files_of_other_formats() -> None:
    for body in (b"x", b"hello" * 100):
        with pytest.raises(NotOurs):
            await look_at(await source_of(body))


async def test_an_object_is_found_among_many() -> None:
    store = MemoryObjectStore(lambda: 0.0)
    keys = [f"c/1/wal/az1/7-3/{counter:012}" for counter in range(30)] + ["top", "c/1/x", "c/1/xa"]
    for number, key in enumerate(keys, 1):
        await store.put(key, b"a" * number)
    for number, key in enumerate(keys, 1):
        assert (await stored_object(store, key)).size_bytes == number
    for key in ("c/1/wal/az1/7-3/000000000030", "c/1", "zz", "c/1/wal/az1/7-3/00000000000"):
        with pytest.raises(NoSuchObject):
            await stored_object(store, key)


def options(what: str, **others: Any) -> InspectOptions:
    given: dict[str, Any] = {"object_store": None, "data": None, "log": None, "records": False}
    return InspectOptions(what, **{**given, **others})


def test_an_object_of_moved_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wal = OpenWal()
    for counter in range(3):
        wal.append(TOPIC, 0, batch(str(counter), "x"), 2, NOW_MS, counter)
    sealed = wal.seal(WalIdentity(7, 3, 5), source_of=lambda token: (2, min(1, int(str(token)))))
    (tmp_path / "moved").write_bytes(sealed.body)

    assert run_inspect(options(str(tmp_path / "moved")), as_json=False) == 0
    assert "came from 2 objects inside the metadata log" in capsys.readouterr().out


def test_a_file_for_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "copy"
    path.write_bytes(segment())

    assert run_inspect(options(str(path), records=True), as_json=False) == 0

    shown = capsys.readouterr().out
    assert "segment, format 1.0" in shown
    assert "offsets 100 to 111" in shown
    assert shown.count("  batch   ") == 6
    assert "offsets 110 to 111, 2 records, none" in shown
    assert shown.endswith("whole\n")


def test_a_damaged_file_for_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = wal_object()
    body[32 + 70] ^= 1
    path = tmp_path / "copy"
    path.write_bytes(body)

    assert run_inspect(options(str(path), records=True), as_json=True) == 1

    *batches, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert len(batches) == 6
    assert [each["ok"] for each in last["slices"]] == [False, True, True]
    assert (last["ok"], last["kind"], last["identity"]["counter"]) == (False, "wal", 5)


def test_inspect_says_why_it_cannot_read_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = wal_object()
    newer[9] = 2
    (tmp_path / "newer").write_bytes(newer)
    (tmp_path / "other").write_bytes(b"something else")

    for what, sentence in (
        ("newer", "has format 2; this release reads format 1"),
        ("other", "neither a WAL object nor a segment"),
    ):
        assert run_inspect(options(str(tmp_path / what)), as_json=False) == 2
        assert sentence in capsys.readouterr().err
    store = f"file:{tmp_path}"
    assert run_inspect(options("c/1/wal/x", object_store=store), as_json=False) == 2
    assert "not found: c/1/wal/x" in capsys.readouterr().err


async def test_a_key_of_a_store_of_files(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path}")
    await store.put(KEY, bytes(wal_object()))
    source = await stored_object(store, KEY)
    await store.aclose()
    assert source.size_bytes == len(wal_object())


def test_keys_that_the_log_says_nothing_of() -> None:
    state = ClusterState()
    assert standing_of(state, "something/else") is None
    elsewhere = standing_of(state, KEY)
    assert elsewhere is not None
    assert elsewhere.standing is Standing.ELSEWHERE


async def test_inspect_shows_the_standing_of_an_object_in_the_log() -> None:
    async with fetch_world() as [world]:
        await world.create("t")
        await world.write(("t", 0, batch("a", "b")))
        await world.write(("t", 0, batch("c")))
        keys = [world.key(WalName(1, counter)) for counter in range(2)]
        await world.coordinator.propose(AbandonWal(WalName(1, 7)))
        expected = [Standing.LIVE, Standing.LIVE, Standing.ABANDONED, Standing.PENDING]
        keys += [world.key(WalName(1, 7)), world.key(WalName(1, 9))]
        assert [each.standing for key in keys if (each := standing_of(world.state, key))] == (
            expected
        )
        live = standing_of(world.state, keys[1])
        assert live is not None
        assert [(topic, index, row.base_offset) for topic, index, row in live.runs] == [("t", 0, 2)]

        await world.move_log_start("t", 0, 2)

        first = standing_of(world.state, keys[0])
        assert first is not None
        assert first.standing is Standing.EXPIRED
