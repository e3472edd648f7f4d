"""The metric of lines that this process's outputs did not take."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from .output import OUTPUTS, PROCESS_OUTPUT, ProcessOutput


def output_metrics(output: ProcessOutput = PROCESS_OUTPUT) -> Iterator[Metric]:
    """Yield the dropped lines by output."""
    family = CounterMetricFamily(
        "tidegate_output_dropped_lines",
        "Lines that standard output or error did not take in time",
        labels=["output"],
    )
    dropped = output.dropped()
    for name in OUTPUTS:
        family.add_metric([name], dropped.get(name, 0))
    yield family
