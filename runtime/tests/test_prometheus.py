"""The text of a metrics page equals that of the Prometheus client, and is made in pieces."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from tidegate_runtime.histograms import Histogram
from tidegate_runtime.prometheus import (
    SAMPLES_A_PIECE,
    Series,
    histogram,
    label,
    line,
    pieces,
    render,
)

STRANGE = 'a "quoted"\\text\nof two lines'


def families() -> list[Metric]:
    gauge = GaugeMetricFamily("g", STRANGE, labels=["zone", "at"])
    gauge.add_metric([STRANGE, "x"], float("nan"))
    gauge.add_metric(["b", "y"], 1e30)
    gauge.add_metric(["b", "z"], float("inf"))
    gauge.add_metric(["c", "z"], float("-inf"))
    counter = CounterMetricFamily("c", "A counter", labels=["topic"])
    counter.add_metric(["t"], 12)
    return [gauge, counter, GaugeMetricFamily("one", "Of one sample", value=-1.5)]


def test_families_are_written_as_the_client_writes_them() -> None:
    class Fixed:
        def collect(self) -> list[Metric]:
            return families()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Fixed())
    assert "".join(pieces(families())).encode() == generate_latest(registry)


def test_a_histogram_is_read_back() -> None:
    values = Histogram()
    for seconds in (0.0005, 0.0015, 0.3, 90.0):
        values.add(seconds)
    text = "".join(pieces([histogram("h_seconds", "Some time", values)]))
    [family] = text_string_to_metric_families(text)
    assert (family.name, family.type) == ("h_seconds", "histogram")
    found = {(each.name, each.labels.get("le", "")): each.value for each in family.samples}
    assert found["h_seconds_bucket", "0.001"] == 1
    assert found["h_seconds_bucket", "0.5"] == 3
    assert found["h_seconds_bucket", "30.0"] == 3
    assert found["h_seconds_bucket", "+Inf"] == found["h_seconds_count", ""] == 4
    assert found["h_seconds_sum", ""] == values.sum_seconds


def test_labels_are_escaped() -> None:
    text = "".join(pieces([Series("s", "Some", "gauge", [line("s", label("a", STRANGE), 1)])]))
    [family] = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"a": STRANGE}


def test_lines_are_made_a_piece_at_a_time() -> None:
    made = 0

    def lines(name: str) -> Series:
        def each() -> Iterator[str]:
            nonlocal made
            for number in range(1_000):
                made += 1
                yield line(name, "", number)

        return Series(name, "Some", "gauge", each())

    before = 0
    text = ""
    for piece in pieces([lines("a"), lines("b"), *families()]):
        assert made - before <= SAMPLES_A_PIECE
        before, text = made, text + piece
    assert made == 2_000
    assert len(text.splitlines()) == 2_000 + 2 * 5 + 6


async def test_a_page_has_the_process_at_its_end() -> None:
    text = (await render(families())).decode()
    names = [each.name for each in text_string_to_metric_families(text)]
    assert names[:3] == ["g", "c", "one"]
    assert "process_resident_memory_bytes" in names
