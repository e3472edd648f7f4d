"""Reads the metrics that clients push: OpenTelemetry's MetricsData v1, in protobuf.  Pure.

It reads each metric's name, and the values of gauges and of delta sums; the gateway asks clients
for deltas (KIP-714).  Everything else is skipped, and counted if it is a metric of another kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from struct import Struct
from typing import Final

MAX_FIELDS: Final = 100_000
"""The most fields of one push; to read them takes about a tenth of a second."""
MAX_NAMES: Final = 2_000
"""The most names in one push; Kafka's clients send some hundreds."""
MAX_NAME_BYTES: Final = 200
MAX_DELTA: Final = float(1 << 63)

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DELTA: Final = 1
_NO_VALUE: Final = 1
_double = Struct("<d").unpack
_sfixed64 = Struct("<q").unpack

_Value = int | memoryview


class BadMetrics(Exception):
    """The bytes are no MetricsData, or have too many fields or names."""


@dataclass(slots=True)
class Pushed:
    """The values of one push, by metric name.

    gauges: the largest value of each gauge.  deltas: the sum of the deltas of each counter.
    ignored: the number of metrics of other kinds, cumulative sums, values that are not finite, and
    negative values of sums.
    """

    gauges: dict[str, float] = field(default_factory=dict[str, float])
    deltas: dict[str, float] = field(default_factory=dict[str, float])
    ignored: int = 0


def read_metrics(data: bytes) -> Pushed:
    """Return the values of a push.

    Raises:
      BadMetrics: see there.
    """
    reader = _Reader()
    for number, resource in reader.fields(memoryview(data)):
        if number == 1:
            for scope in reader.messages(resource, 2):
                for metric in reader.messages(scope, 2):
                    reader.metric(metric)
    return reader.pushed


class _Reader:
    """Reads one push; it counts the fields of all its messages."""

    def __init__(self) -> None:
        self.pushed = Pushed()
        self._fields_left = MAX_FIELDS

    def metric(self, message: memoryview) -> None:
        name, gauge, total = "", None, None
        for number, value in self.fields(message):
            match number:
                case 1:
                    name = _name(_message(value))
                case 5:
                    gauge = _message(value)
                case 7:
                    total = _message(value)
                case 9 | 10 | 11:
                    self.pushed.ignored += 1
                case _:
                    pass
        if gauge is not None:
            self._gauge(name, gauge)
        if total is not None:
            self._sum(name, total)
        if len(self.pushed.gauges) + len(self.pushed.deltas) > MAX_NAMES:
            raise BadMetrics(f"more than {MAX_NAMES} names")

    def messages(self, value: _Value, wanted: int) -> Iterator[memoryview]:
        """Yield the messages in a field of a message."""
        for number, each in self.fields(_message(value)):
            if number == wanted:
                yield _message(each)

    def fields(self, message: memoryview) -> Iterator[tuple[int, _Value]]:
        """Yield number and value of each field: an integer, or the bytes of any other type."""
        position = 0
        while position < len(message):
            self._fields_left -= 1
            if self._fields_left < 0:
                raise BadMetrics(f"more than {MAX_FIELDS} fields")
            tag, position = _varint(message, position)
            number, kind = tag >> 3, tag & 7
            if number == 0:
                raise BadMetrics("a field has number 0")
            if kind == _VARINT:
                value, position = _varint(message, position)
                yield number, value
                continue
            size = _FIXED_SIZES.get(kind)
            if size is None:
                size, position = _varint(message, position)
            if kind not in _KINDS or size > len(message) - position:
                raise BadMetrics("a field has no such type, or ends after its message")
            yield number, message[position : position + size]
            position += size

    def _gauge(self, name: str, gauge: memoryview) -> None:
        for value in self._numbers(gauge):
            largest = self.pushed.gauges.get(name, value)
            self.pushed.gauges[name] = max(largest, value)

    def _sum(self, name: str, message: memoryview) -> None:
        temporality = 0
        for number, found in self.fields(message):
            if number == 2:
                temporality = _integer(found)
        if temporality != _DELTA:
            self.pushed.ignored += 1
            return
        for value in self._numbers(message):
            if not 0 <= value <= MAX_DELTA:
                self.pushed.ignored += 1
                continue
            self.pushed.deltas[name] = self.pushed.deltas.get(name, 0.0) + value

    def _numbers(self, message: memoryview) -> Iterator[float]:
        """Yield the finite values of the data points of a gauge or sum."""
        for point in self.messages(message, 1):
            value = self._number(point)
            if value is None or not isfinite(value):
                self.pushed.ignored += 1
            else:
                yield value

    def _number(self, point: memoryview) -> float | None:
        number: float | None = None
        for field_number, value in self.fields(point):
            match field_number:
                case 4:
                    number = _double(_eight_bytes(value))[0]
                case 6:
                    number = float(_sfixed64(_eight_bytes(value))[0])
                case 8 if _integer(value) & _NO_VALUE:
                    return None
                case _:
                    pass
        return number


_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_KINDS: Final = frozenset({_FIXED64, _BYTES, _FIXED32})


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise BadMetrics("a number ends after its message")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise BadMetrics("a number has more than ten bytes")


def _name(raw: memoryview) -> str:
    if len(raw) > MAX_NAME_BYTES:
        raise BadMetrics(f"a name has more than {MAX_NAME_BYTES} bytes")
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise BadMetrics("a name is not UTF-8") from error


def _message(value: _Value) -> memoryview:
    if isinstance(value, int):
        raise BadMetrics("a number stands where a message belongs")
    return value


def _integer(value: _Value) -> int:
    if not isinstance(value, int):
        raise BadMetrics("a message stands where a number belongs")
    return value


def _eight_bytes(value: _Value) -> memoryview:
    if isinstance(value, int) or len(value) != 8:
        raise BadMetrics("a number has not eight bytes")
    return value
