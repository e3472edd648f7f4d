"""Scenarios of the pipeline and the metadata, each run small, and their parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console

from tidegate_bench.brokers import bare_reads
from tidegate_bench.brokers.virtual_cluster import Load, VirtualCluster, live_rows
from tidegate_bench.errors import BenchError
from tidegate_bench.lab import Lab
from tidegate_bench.measure.table import Row
from tidegate_bench.options import Options
from tidegate_bench.pipeline_lab import PipelineLab
from tidegate_bench.run import run
from tidegate_bench.scenarios import cold_read, compact, merge, metadata
from tidegate_coordination.state.cluster import ClusterState


@contextmanager
def lab_of(options: Options) -> Iterator[Lab]:
    with ExitStack() as stack:
        yield Lab(options, Console(quiet=True), stack)


def medians(row: Row) -> dict[str, float]:
    return {name: each.median for name, each in row.figures.items()}


def test_merging_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "QUICK_BYTES", 10_000_000)
    options = Options(store="file", quick=True, only=("local",))
    with lab_of(options) as lab:
        first, warm = merge.run(lab).rows
    assert first.case.endswith("first round")
    figures = medians(warm)
    assert 0 < figures["MiB/s/core"] < 10_000
    assert figures["MiB/s/core"] == figures["of workers"]  # driver and worker are one process
    assert round(figures["PUT/GiB"] * 10_000_000 / 2**30) == merge.PARTITIONS
    assert figures["GET/GiB"] > 0


def test_compaction_keeps_the_requested_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "QUICK_RECORDS", 8_000)
    monkeypatch.setattr(compact, "_QUICK", compact._LOADS[:4])
    options = Options(store="file", quick=True, only=("local none", "local lz4, 80"))
    with lab_of(options) as lab:
        rows = compact.run(lab).rows
    kept = {row.case: medians(row)["kept %"] for row in rows}
    assert kept == {
        "none, 32 % kept": pytest.approx(32, abs=2),
        "none, 80 % kept": pytest.approx(80, abs=2),
        "lz4, 80 % kept": pytest.approx(80, abs=2),
    }
    sizes = {row.case: medians(row)["bytes/record"] for row in rows}
    assert sizes["none, 32 % kept"] == pytest.approx(185, abs=5)
    assert sizes["lz4, 80 % kept"] < 150


def test_a_pipeline_refuses_stores_and_logs_in_memory(capsys: pytest.CaptureFixture[str]) -> None:
    why = {
        "merge": "a pipeline cannot read a store in memory",
        "compact": "a pipeline cannot read a store in memory",
        "cold-read": "a store in memory is empty after a restart",
    }
    for name, sentence in why.items():
        assert run([name], Options(store="memory"), as_json=True) == 1
        assert sentence in capsys.readouterr().err


def test_scenarios_of_one_gateway_refuse_several(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("restart", "cold-read"):
        assert run([name], Options(store="file", processes=1), as_json=True) == 1
        assert "one gateway: leave --processes out" in capsys.readouterr().err


def test_a_unit_that_fails_fails_the_run(tmp_path: Path) -> None:
    store_url, log_url = f"file:{tmp_path}/objects", f"sqlite:{tmp_path}/metadata.db"
    with ExitStack() as stack:
        pipeline = PipelineLab("local", store_url, log_url, tmp_path, stack)
        assert pipeline.write("t", 2, [(0, merge._batch(1)), (1, merge._batch(1))])
        for path in tmp_path.glob("objects/**/wal/**/*"):
            if path.is_file():
                path.write_bytes(b"x" * path.stat().st_size)
        with pytest.raises(BenchError, match=r"2 units failed, 0 did not(.|\n)*no batch"):
            pipeline.do("merge")


def test_cold_reads_beside_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_read, "ONE_READER_BYTES", 80_000_000)
    options = Options(store="file", quick=True, only=("segments, 1 reader",))
    with lab_of(options) as lab:
        ours, store = cold_read.run(lab).rows
    assert (ours.broker, store.broker) == ("tidegate", "store")
    figures = medians(ours)
    assert figures["objects"] == cold_read.PARTITIONS
    assert figures["GET/object"] > 0
    assert figures["got/stored"] >= 0.99  # no bytes came from memory
    assert figures["of store's speed"] == pytest.approx(
        figures["MB/s"] / medians(store)["MB/s"], rel=0.01
    )


def test_a_store_is_read_whole(tmp_path: Path) -> None:
    for name, size in (("a/wal/1", 10), ("a/segments/1", 20), ("a/segments/2", 9 << 20)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    found = bare_reads.read_all(f"file:{tmp_path}", "/segments/")
    assert (found.objects, found.bytes, found.gets) == (2, 20 + (9 << 20), 3)


def metadata_rows(minutes: float, **asked: Any) -> list[Mapping[str, float]]:
    with lab_of(Options(hours=minutes / 60, **asked)) as lab:
        return [medians(row) for row in metadata.run(lab).rows]


def test_metadata_stays_flat_once_segments_expire() -> None:
    rows = metadata_rows(24, partitions=40, gateways=2, slices=4, retention_hours=0.1)
    assert len(rows) == 24
    for name in ("live runs", "segments", "objects", "snapshot MB"):
        middle = max(row[name] for row in rows[8:16])
        assert 0 < max(row[name] for row in rows[16:]) <= middle * 1.15, name
    assert min(row["merges/min"] for row in rows[3:]) > 0


def test_the_folded_state_is_the_state_of_a_cluster() -> None:
    cluster = VirtualCluster(Load(20, 2, 5, retention_ms=120_000), Random(3))
    cluster.begin()
    cluster.run(300_000)
    state, done, log = cluster.state, cluster.done, cluster.log
    assert done.commits == 2 * 4 * 300
    assert done.slices == 5 * done.commits
    assert sum(each.next_offset for each in state.partitions.values()) == 16 * done.slices
    assert all(each.log_start > 0 for each in state.partitions.values())
    runs, segments = live_rows(state)
    assert runs > 0
    assert segments > 0
    assert ClusterState.decode(state.encode()).encode() == state.encode()
    assert log.position == state.position
    assert log.size_bytes == sum(log.kept)
    assert len(log.kept) <= log.position


def test_impossible_options_of_metadata_are_refused() -> None:
    with pytest.raises(BenchError, match="--hours: a minute at least"):
        metadata_rows(0.1)
    with pytest.raises(BenchError, match="not more than --partitions"):
        metadata_rows(5, partitions=10, slices=11)


def test_figures_go_to_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(store="memory", hours=2 / 60, partitions=10, gateways=1, slices=2)
    assert run(["metadata"], options, as_json=True) == 0
    (scenario,) = json.loads(capsys.readouterr().out)["scenarios"]
    assert scenario["scenario"] == "metadata"
    assert len(scenario["rows"]) == 2
