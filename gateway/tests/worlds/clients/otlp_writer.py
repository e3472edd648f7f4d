"""Writes MetricsData as clients do, for tests.  It shares no code with the gateway's reader."""

from __future__ import annotations

from struct import pack

Value = int | float


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def point(value: Value, *more: bytes) -> bytes:
    """Return a data point with a start and an end time and one attribute."""
    raw = pack("<Bq", 6 << 3 | 1, value) if isinstance(value, int) else b""
    if isinstance(value, float):
        raw = pack("<Bd", 4 << 3 | 1, value)
    attribute = part(7, part(1, b"topic") + part(2, part(1, b"t")))
    return attribute + pack("<BqBq", 2 << 3 | 1, 1, 3 << 3 | 1, 2) + raw + b"".join(more)


def gauge(name: str, *points: bytes) -> bytes:
    data = b"".join(part(1, each) for each in points)
    return part(1, name.encode()) + part(2, b"text") + part(5, data)


def total(name: str, *points: bytes, temporality: int = 1) -> bytes:
    data = b"".join(part(1, each) for each in points)
    return part(1, name.encode()) + part(7, data + number(2, temporality) + number(3, 1))


def metrics(*each: bytes) -> bytes:
    """Return a push of metrics: gauge(), total() or bytes."""
    scope = part(1, part(1, b"scope")) + b"".join(part(2, one) for one in each)
    resource = part(1, part(1, b"")) + part(2, scope)
    return part(1, resource)
