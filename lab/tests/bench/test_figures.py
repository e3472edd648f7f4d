"""The bench's statistics, rows and cells."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tidegate_bench.lab import rows_of
from tidegate_bench.measure.figures import (
    GIB,
    Observation,
    Spread,
    figures_of,
    latency_figures,
    percentile,
    spreads_of,
)
from tidegate_bench.measure.table import Report, Row, as_json, cell, print_report, ratio_row


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 5), (0.51, 6), (0.9, 9), (0.99, 10), (1.0, 10)]
)
def test_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], share) == expected


def test_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_latencies_are_shown_in_ms() -> None:
    seconds = [number / 1000 for number in range(1, 1001)]
    assert latency_figures(seconds) == {"p50 ms": 500.0, "p99 ms": 990.0, "p99.9 ms": 999.0}


def test_figures_of_a_run() -> None:
    seen = Observation(
        payload_bytes=GIB,
        seconds=2.0,
        server_cpu=1.5,
        store_cpu=None,
        requests=3000,
        puts=128,
        rss_bytes=5_000_000,
        more={"p50 ms": 4.0},
    )
    figures = figures_of(seen)
    assert figures == {
        "cpu ms/MB": pytest.approx(1500 / (GIB / 1e6)),
        "MB/s": pytest.approx(GIB / 2e6),
        "req/s": 1500.0,
        "PUT/GiB": 128.0,
        "RSS MB": 5.0,
        "p50 ms": 4.0,
    }


def test_figures_of_nothing() -> None:
    assert figures_of(Observation(server_cpu=1.0)) == {}


def test_spreads_keep_figures_that_only_some_runs_have() -> None:
    runs = [{"a": 3.0}, {"a": 1.0, "b": 7.0}, {"a": 2.0}]
    assert spreads_of(runs) == {"a": Spread(2.0, 1.0, 3.0), "b": Spread(7.0, 7.0, 7.0)}


def test_two_brokers_get_a_ratio() -> None:
    ours = [Observation(1_000_000, 1.0, server_cpu=cpu) for cpu in (0.001, 0.002, 0.004)]
    theirs = [Observation(1_000_000, 2.0, server_cpu=0.008)]
    rows = rows_of("case", ["tidegate", "kafka"], [ours, theirs])
    assert [row.broker for row in rows] == ["tidegate", "kafka", "ratio"]
    assert rows[0].figures["cpu ms/MB"] == Spread(2.0, 1.0, 4.0)
    assert rows[2].figures == {
        "cpu ms/MB": Spread(0.25, 0.25, 0.25),
        "MB/s": Spread(2.0, 2.0, 2.0),
    }


def test_a_ratio_omits_figures_that_cannot_be_compared() -> None:
    one = Spread(1.0, 1.0, 1.0)
    row = ratio_row("case", {"a": one, "b": one}, {"a": Spread(0.0, 0.0, 0.0)})
    assert row.figures == {}


@pytest.mark.parametrize(
    ("spread", "text"),
    [
        (Spread(1.234, 1.234, 1.234), "1.23"),
        (Spread(12.34, 10.0, 99.96), "12.3 (10.0-100.0)"),
        (Spread(1234.5, 1234.4, 1234.6), "1,234 (1,234-1,235)"),
        (Spread(0.0, 0.0, 0.0), "0.00"),
    ],
)
def test_cells(spread: Spread, text: str) -> None:
    assert cell(spread) == text


def test_a_report_is_printed_and_written_as_json() -> None:
    report = Report("ingest", [Row("1MB", "tidegate", {"MB/s": Spread(2.0, 1.0, 3.0)})], ("note",))
    out = io.StringIO()
    print_report(report, Console(file=out, width=100))
    for text in ("ingest", "1MB", "tidegate", "MB/s", "2.00 (1.00-3.00)", "note"):
        assert text in out.getvalue()
    told = json.loads(as_json({"commit": "c"}, [report]))
    assert told["header"] == {"commit": "c"}
    assert told["scenarios"][0]["rows"][0]["figures"]["MB/s"]["median"] == 2.0
