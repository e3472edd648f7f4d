"""A batch that is not built yet: every field may be false, and every byte changed.  Pure.

Times are relative to now, except those far from any clock, so that a recording can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from struct import Struct
from typing import Final

from crc32c import crc32c

from tidegate_protocol.batches import CRC_POSITION, CRC_START, HEADER_BYTES, LENGTH_OVERHEAD
from tidegate_protocol.compression import compress

HOUR_MS: Final = 3_600_000
_HEADER: Final = Struct(">qiibIHiqqqhii")
_FIELDS: Final = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
Edit = Callable[[bytes], bytes]


@dataclass(slots=True)
class RawRecord:
    """A record.  changed: by field, such as "key_size", bytes instead of the right ones."""

    time_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    changed: dict[str, bytes] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return its bytes."""
        parts = {"attributes": b"\0", "time": varint(self.time_delta)}
        parts["offset"] = varint(self.offset_delta)
        parts |= _sized("key", self.key) | _sized("value", self.value)
        parts["header_count"] = varint(len(self.headers))
        for number, (key, value) in enumerate(self.headers):
            parts |= _sized(f"header_key_{number}", key) | _sized(f"header_value_{number}", value)
        parts["tail"] = b""
        body = b"".join(self.changed.get(name, data) for name, data in parts.items())
        return self.changed.get("length", varint(len(body))) + body


@dataclass(slots=True)
class Draft:
    """A batch before it is built.

    header: false values of fields; "length" and "crc" are added to the right values.  raw, packed,
    whole: edits of the records' bytes, of the codec's stream, and of the whole batch.
    """

    rng: Random
    now_ms: int
    codec: int
    records: list[RawRecord] = field(default_factory=list, init=False)
    base_timestamp: int = field(default=0, init=False)
    header: dict[str, int] = field(default_factory=dict, init=False)
    raw: list[Edit] = field(default_factory=list, init=False)
    pack: Edit | None = field(default=None, init=False)
    packed: list[Edit] = field(default_factory=list, init=False)
    whole: list[Edit] = field(default_factory=list, init=False)
    is_null: bool = field(default=False, init=False)

    def payload(self) -> bytes:
        """Return the bytes of the records before compression."""
        return _edited(b"".join(each.encoded() for each in self.records), self.raw)

    def built(self) -> bytes | None:
        """Return the batch."""
        if self.is_null:
            return None
        raw = self.payload()
        packed = self.pack(raw) if self.pack is not None else compress(raw, self.codec)
        packed = _edited(packed, self.packed)
        values = self._header(len(packed))
        out = bytearray(_HEADER.pack(*(values[name] for name in _FIELDS)) + packed)
        crc = crc32c(bytes(out[CRC_START:])) + self.header.get("crc", 0)
        out[CRC_POSITION:CRC_START] = (crc % (1 << 32)).to_bytes(4, "big")
        return _edited(bytes(out), self.whole)

    def _header(self, size: int) -> dict[str, int]:
        times = [self.base_timestamp + each.time_delta for each in self.records]
        values = {
            "base_offset": 0,
            "leader_epoch": -1,
            "magic": 2,
            "attributes": self.codec,
            "last_offset_delta": len(self.records) - 1,
            "base_timestamp": self.base_timestamp,
            "max_timestamp": _within(max(times, default=-1)),
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "record_count": len(self.records),
        }
        values |= self.header
        right = HEADER_BYTES - LENGTH_OVERHEAD + size
        values["length"] = _within(right + self.header.get("length", 0), 32)
        return values | {"crc": 0}


def _within(number: int, bits: int = 64) -> int:
    half = 1 << bits - 1
    return min(max(number, -half), half - 1)


def _edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    for each in edits:
        data = each(data)
    return data


def _sized(name: str, data: bytes | None) -> dict[str, bytes]:
    size = varint(-1 if data is None else len(data))
    return {f"{name}_size": size, name: data or b""}


def varint(number: int, size: int = 0) -> bytes:
    """Return the zigzag varint of a number, in at least this many bytes."""
    value = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while True:
        byte = value & 127
        value >>= 7
        if value == 0 and len(out) + 1 >= size:
            return bytes([*out, byte])
        out.append(byte | 128)
