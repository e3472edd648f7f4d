"""`tidegate inspect`: transactions in objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.fetch_world import NOW_MS
from tests.worlds.wire_client import records_batch
from tidegate_gateway.cli.inspect.command import InspectOptions, run_inspect
from tidegate_gateway.tools.aborted_index import AbortedIndex
from tidegate_protocol.batches import CONTROL, TRANSACTIONAL, read_header, set_base_offset
from tidegate_protocol.control_batches import control_batch
from tidegate_storage.objects.batch_scan import BatchScan, SeenBatch
from tidegate_storage.objects.segment_format import AbortedTransaction
from tidegate_storage.objects.segments import FinalBatch, SegmentBuilder
from tidegate_storage.objects.wal import OpenWal
from tidegate_storage.objects.wal_format import WalIdentity

TOPIC = bytes(range(16))


@pytest.fixture(autouse=True)
def logs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the command from changing the logging of this process, which runs the tests."""
    monkeypatch.setattr("tidegate_gateway.cli.inspect.command.configure_logs", lambda _: None)


def data(offset: int, producer_id: int, *, attributes: int = TRANSACTIONAL) -> bytes:
    batch = bytearray(
        records_batch(b"x", attributes=attributes, producer_id=producer_id, base_sequence=offset)
    )
    set_base_offset(batch, 0, base_offset=offset, leader_epoch=0)
    return bytes(batch)


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return control_batch(
        base_offset=offset,
        leader_epoch=0,
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=3,
        committed=committed,
    )


def segment(aborted: Sequence[tuple[int, int, int]] = ((7, 0, 3),)) -> bytes:
    """A segment of offsets 0 to 6: overlapping transactions, one of them aborted, then another."""
    batches = [
        data(0, 7),
        data(1, 8),
        data(2, 9, attributes=0),
        marker(3, 7, committed=False),
        marker(4, 8, committed=True),
        data(5, 7),
        marker(6, 7, committed=True),
    ]
    builder = SegmentBuilder(TOPIC, 1, 0)
    for offset, batch in enumerate(batches):
        builder.append(FinalBatch(bytearray(batch), offset + 1, 1, NOW_MS))
    for each in aborted:
        builder.add_aborted(AbortedTransaction(*each))
    return bytes(builder.seal(7).body)


def inspected(path: Path, body: bytes, *, as_json: bool) -> int:
    path.write_bytes(body)
    return run_inspect(InspectOptions(str(path), None, None, None, True), as_json=as_json)


def test_a_person_sees_markers_and_aborted_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspected(tmp_path / "copy", segment(), as_json=False) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "aborted   producer 7, offsets 0 to 3" in shown
    ends = [each.split("producer ", 1)[1] for each in shown if each.startswith("  batch")]
    assert ends == [
        "7 epoch -1 sequence 0, transactional, aborted",
        "8 epoch -1 sequence 1, transactional",
        "9 epoch -1 sequence 2",
        "7 epoch 3, abort marker",
        "8 epoch 3, commit marker",
        "7 epoch -1 sequence 5, transactional",
        "7 epoch 3, commit marker",
    ]


def test_a_script_sees_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspected(tmp_path / "copy", segment(), as_json=True) == 0
    *lines, last = map(json.loads, capsys.readouterr().out.splitlines())
    batches = [each["batch"] for each in lines]
    assert [each["marker"] for each in batches] == [
        *(None, None, None),
        *("abort", "commit", None, "commit"),
    ]
    assert [each["aborted"] for each in batches] == [True, *[False] * 6]
    assert [each["transactional"] for each in batches] == [True, True, False, *[True] * 4]
    assert last["aborted"] == [{"producer_id": 7, "first_offset": 0, "last_offset": 3}]


def test_a_long_list_of_aborted_transactions_is_cut_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = segment([(producer_id, 0, 3) for producer_id in range(300)])
    assert inspected(tmp_path / "copy", body, as_json=False) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len([each for each in shown if each.startswith("aborted ")]) == 201
    assert "aborted   100 more; --json lists all" in shown


def test_transactional_batches_of_a_wal_object_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wal = OpenWal()
    wal.append(TOPIC, 0, data(0, 7), 1, NOW_MS, None)
    body = bytes(wal.seal(WalIdentity(7, 3, 5)).body)
    assert inspected(tmp_path / "copy", body, as_json=False) == 0
    assert "producer 7 epoch -1 sequence 0, transactional\n" in capsys.readouterr().out


@pytest.mark.parametrize("step", [1, 7, 60, 78, 1000])
def test_markers_are_read_in_pieces_of_any_size(step: int) -> None:
    stretch = marker(0, 7, committed=True) + data(1, 8) + marker(2, 8, committed=False)
    scan, seen = BatchScan(0, len(stretch)), list[Any]()
    for start in range(0, len(stretch), step):
        seen += scan.feed(stretch[start : start + step])
    assert [each.commits for each in seen] == [True, None, False]
    assert scan.end() is None


def test_other_control_batches_end_nothing() -> None:
    batch = records_batch(b"a record of this size", attributes=TRANSACTIONAL | CONTROL)
    leader_change = bytearray(marker(0, 7, committed=True))
    leader_change[69] = 2
    for each in (batch, leader_change):
        [seen] = BatchScan(0, len(each)).feed(bytes(each))
        assert isinstance(seen, SeenBatch)
        assert seen.commits is None


@pytest.mark.parametrize(
    ("offset", "is_aborted"), [(4, False), (5, True), (9, True), (10, False), (20, True)]
)
def test_the_index_of_several_transactions_of_a_producer(offset: int, is_aborted: bool) -> None:
    index = AbortedIndex([AbortedTransaction(7, 20, 29), AbortedTransaction(7, 5, 9)])
    for producer_id in (7, 8):
        header = read_header(data(offset, producer_id))
        assert index.holds(SeenBatch(0, header, True)) is (is_aborted and producer_id == 7)
