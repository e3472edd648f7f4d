"""The metrics of lines that this process's outputs lack."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from .line_rates import LineRates
from .log_lines import PROCESS_RATES
from .output import OUTPUTS, PROCESS_OUTPUT, ProcessOutput


def output_metrics(
    output: ProcessOutput = PROCESS_OUTPUT, rates: LineRates = PROCESS_RATES
) -> Iterator[Metric]:
    """Yield the dropped lines by output, and the log lines that were left out."""
    family = CounterMetricFamily(
        "tidegate_output_dropped_lines",
        "Lines that standard output or error did not take in time",
        labels=["output"],
    )
    dropped = output.dropped()
    for name in OUTPUTS:
        family.add_metric([name], dropped.get(name, 0))
    yield family
    yield CounterMetricFamily(
        "tidegate_log_left_out_lines",
        "Log lines that were not written, since too many of a kind came",
        value=rates.left_out,
    )
