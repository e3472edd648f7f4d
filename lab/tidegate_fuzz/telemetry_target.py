"""Target: the metrics that clients push (KIP-714), as OpenTelemetry's MetricsData."""

from __future__ import annotations

from math import isfinite
from random import Random

from tidegate_gateway.telemetry.client_values import PREFIX, Client, ClientValues
from tidegate_gateway.telemetry.otlp import MAX_NAMES, BadMetrics, read_metrics
from tidegate_gateway.telemetry.subscriptions import Choice

_CHOICE = Choice(1, ("*",), 1_000)


def _part(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2, len(content)]) + content


class PushedMetricsTarget:
    """Input: MetricsData.  The values on the page must be few, finite, and under fit names."""

    head_bytes = 0
    fixed_bytes = 64 * 1024
    bytes_per_byte = 512
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        found: list[bytes] = []
        for kind, tail in ((5, b""), (7, b"\x10\x01\x18\x01"), (7, b"\x10\x02"), (9, b"")):
            for value in (b"\x21", b"\x31"):
                for name in (b"org.apache.kafka.a.total", b"b"):
                    point = _part(1, b"\x11" + bytes(8) + value + rng.randbytes(8))
                    metric = _part(1, name) + _part(kind, point + tail)
                    found.append(_part(1, _part(2, _part(2, metric))))
        return found

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        try:
            pushed = read_metrics(data)
        except BadMetrics:
            return
        assert len(pushed.gauges) + len(pushed.deltas) <= MAX_NAMES
        values = ClientValues()
        values.take(Client("c", "s"), b"i", _CHOICE, pushed, 0)
        counters, gauges = list(values.counters()), list(values.gauges())
        assert not {each[:2] for each in counters} & {each[:2] for each in gauges}
        for name, _, value in (*counters, *gauges):
            assert isfinite(value)
            assert name.startswith(PREFIX)
            assert name.replace("_", "a").isalnum()
            assert name.isascii()
