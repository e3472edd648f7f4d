"""Batches that a gateway must refuse, one for each rule of the walk over records.  Pure.

Each batch is sound except for one thing: a field of a record, the records as a whole, the
compressed bytes, or the header.  So a gateway that does not check one of the rules stores a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple, TypeAlias

from tidegate_protocol.batches import (
    CONTROL,
    CRC_POSITION,
    MAGIC,
    BatchHeader,
    framed,
)
from tidegate_protocol.compression import Codec, compress
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.primitives import write_varint

from ..plans.malformed_plan import MAX_DECOMPRESSED_BYTES

Edit: TypeAlias = Callable[[bytes], bytes]
_MAX_32: Final = 2**31 - 1
_FAR_MS: Final = 57 * 365 * 86_400_000


class Malformed(NamedTuple):
    """kind: what is wrong.  code: what Kafka answers.  named: the records that the answer names."""

    kind: str
    data: bytes
    code: ErrorCode
    named: tuple[int, ...] = ()


@dataclass(slots=True)
class Draft:
    """A batch in the making.

    records: the fields of each, by name.  header: fields whose values contradict the records.
    raw, packed, whole: changes of the records' bytes, of the compressed bytes, and of the batch.
    """

    rng: Random
    codec: int
    records: list[dict[str, bytes]]
    header: dict[str, int] = field(default_factory=dict[str, int])
    raw: list[Edit] = field(default_factory=list[Edit])
    packed: list[Edit] = field(default_factory=list[Edit])
    whole: list[Edit] = field(default_factory=list[Edit])
    code: ErrorCode = ErrorCode.INVALID_RECORD
    named: tuple[int, ...] = ()

    def built(self, header: BatchHeader) -> bytes:
        """Return the batch.  header: of the sound batch; sizes, CRC and codec are filled in."""
        payload = _edited(b"".join(map(_encoded, self.records)), self.raw)
        payload = _edited(compress(payload, self.codec), self.packed)
        batch, _ = framed(header._replace(**self.header), payload, codec=self.codec)
        return _edited(bytes(batch), self.whole)


class Sound(NamedTuple):
    """The batch without its fault: a record for each value.  timestamp: ms.  producer: id and
    epoch.
    """

    values: Sequence[int]
    timestamp: int
    producer: tuple[int, int]
    sequence: int


def malformed_batch(rng: Random, sound: Sound) -> Malformed:
    """Return a batch of which one thing is wrong."""
    kind = rng.choice(list(rng.choice(_GROUPS)))
    return damaged(rng, kind, rng.choice(codecs_of(kind)), sound)


def codecs_of(kind: str) -> tuple[Codec, ...]:
    """Return the codecs with which a kind is malformed."""
    return _COMPRESSED if kind in _STREAMS or kind == "a bomb" else tuple(Codec)


def damaged(rng: Random, kind: str, codec: int, sound: Sound) -> Malformed:
    """Return the batch with this kind of damage; none for ""."""
    draft = Draft(rng, codec, [_fields(*each) for each in enumerate(sound.values)])
    if kind:
        KINDS[kind](draft)
    count = len(sound.values)
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=sound.timestamp,
        max_timestamp=sound.timestamp,
        producer_id=sound.producer[0],
        producer_epoch=sound.producer[1],
        base_sequence=sound.sequence,
        record_count=count,
    )
    return Malformed(kind, draft.built(header), draft.code, draft.named)


def _fields(place: int, value: int) -> dict[str, bytes]:
    text = str(value).encode()
    return {
        "attributes": b"\0",
        "time": _number(0),
        "offset": _number(place),
        "key size": _number(1),
        "key": b"k",
        "value size": _number(len(text)),
        "value": text,
        "header count": _number(1),
        "header key size": _number(1),
        "header key": b"h",
        "header value size": _number(1),
        "header value": b"v",
        "end": b"",
    }


def _encoded(record: Mapping[str, bytes]) -> bytes:
    body = b"".join(data for name, data in record.items() if name != "length")
    return record.get("length", _number(len(body))) + body


def _edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    for each in edits:
        data = each(data)
    return data


def _number(value: int, size_bytes: int = 0) -> bytes:
    """Return the varint of a number, in at least so many bytes."""
    out = bytearray()
    write_varint(out, value)
    missing = size_bytes - len(out)
    if missing > 0:
        out[-1] |= 0x80
        out += b"\x80" * (missing - 1) + b"\0"
    return bytes(out)


# -- one thing that is wrong ----------------------------------------------------------------------

Damage: TypeAlias = Callable[[Draft], None]


def _with(name: str, data: bytes) -> Damage:
    """Give a record other bytes of a field."""

    def damage(draft: Draft) -> None:
        draft.rng.choice(draft.records)[name] = data

    return damage


def _length(more: int) -> Damage:
    """Give a record a length that is not its own."""

    def damage(draft: Draft) -> None:
        record = draft.rng.choice(draft.records)
        record["length"] = _number(sum(map(len, record.values())) + more)

    return damage


def _raw(edit: Edit) -> Damage:
    return lambda draft: draft.raw.append(edit)


def _packed(edit: Edit) -> Damage:
    return lambda draft: draft.packed.append(edit)


def _said(**fields: int) -> Damage:
    """Let the header say something else."""
    return lambda draft: draft.header.update(fields)


def _one_record_more(draft: Draft) -> None:
    more = _encoded(_fields(len(draft.records), 0))
    draft.raw.append(lambda raw: raw + more)


def _one_record_fewer(draft: Draft) -> None:
    size = len(_encoded(draft.records[-1]))
    draft.raw.append(lambda raw: raw[:-size])


def _offsets_from_one(draft: Draft) -> None:
    for place, record in enumerate(draft.records):
        record["offset"] = _number(place + 1)


def _counts_differ(draft: Draft) -> None:
    draft.header["last_offset_delta"] = len(draft.records)


def _false_crc(draft: Draft) -> None:
    def flip(batch: bytes) -> bytes:
        changed = batch[CRC_POSITION] ^ 1
        return batch[:CRC_POSITION] + bytes([changed]) + batch[CRC_POSITION + 1 :]

    draft.code = ErrorCode.CORRUPT_MESSAGE
    draft.whole.append(flip)


def _in_57_years(draft: Draft) -> None:
    place = draft.rng.randrange(len(draft.records))
    draft.records[place]["time"] = _number(_FAR_MS)
    draft.code, draft.named = ErrorCode.INVALID_TIMESTAMP, (place,)


def _of_another_codec(draft: Draft) -> None:
    stream = draft.codec % max(Codec) + 1
    draft.packed.append(lambda _: compress(b"a stream of another codec", stream))


def _bomb(draft: Draft) -> None:
    record = draft.rng.choice(draft.records)
    record["header value size"] = _number(3 * MAX_DECOMPRESSED_BYTES)
    record["header value"] = bytes(3 * MAX_DECOMPRESSED_BYTES)


_FIELDS: Final[dict[str, Damage]] = {
    "length -1": _with("length", _number(-1)),
    "length 0": _with("length", _number(0)),
    "length 2^31-1": _with("length", _number(_MAX_32)),
    "length of 6 bytes": _with("length", _number(30, 6)),
    "length one less": _length(-1),
    "length one more": _length(1),
    "time of 11 bytes": _with("time", _number(0, 11)),
    "offset -1": _with("offset", _number(-1)),
    "offset 2^31-1": _with("offset", _number(_MAX_32)),
    "offset of 6 bytes": _with("offset", _number(0, 6)),
    "offsets from 1": _offsets_from_one,
    "key size -2": _with("key size", _number(-2)),
    "key size 2^31-1": _with("key size", _number(_MAX_32)),
    "value size -2": _with("value size", _number(-2)),
    "value size 2^31-1": _with("value size", _number(_MAX_32)),
    "header count -1": _with("header count", _number(-1)),
    "header count 2": _with("header count", _number(2)),
    "header count 10^6": _with("header count", _number(10**6)),
    "header key of null": _with("header key size", _number(-1)),
    "header value size -2": _with("header value size", _number(-2)),
    "header value size 2^31-1": _with("header value size", _number(_MAX_32)),
    "a byte behind the fields": _with("end", b"\0"),
}
_RECORDS: Final[dict[str, Damage]] = {
    "records cut": _raw(lambda raw: raw[:-3]),
    "no records": _raw(lambda _: b""),
    "bytes behind the records": _raw(lambda raw: raw + b"behind the last record"),
    "one record more": _one_record_more,
    "one record fewer": _one_record_fewer,
}
_HEADERS: Final[dict[str, Damage]] = {
    "counts differ": _counts_differ,
    "no count": _said(record_count=0, last_offset_delta=-1),
    "base offset 1": _said(base_offset=1),
    "a control batch": _said(attributes=CONTROL),
    "a false CRC": _false_crc,
}
_LIMITS: Final[dict[str, Damage]] = {"a record in 57 years": _in_57_years, "a bomb": _bomb}
_STREAMS: Final[dict[str, Damage]] = {
    "a stream cut": _packed(lambda packed: packed[:-5]),
    "half a stream": _packed(lambda packed: packed[: len(packed) // 2]),
    "no stream": _packed(lambda _: b""),
    "text for a stream": _packed(lambda _: b"this is no stream of any codec"),
    "a stream of another codec": _of_another_codec,
    "text behind the stream": _packed(lambda packed: packed + b"text behind the stream"),
}
_GROUPS: Final = (_FIELDS, _RECORDS, _HEADERS, _LIMITS, _STREAMS)
KINDS: Final = _FIELDS | _RECORDS | _HEADERS | _LIMITS | _STREAMS
"""The kinds of faults."""
_COMPRESSED: Final = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
