"""Changes of records.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mutated_batches.draft import HOUR_MS, Draft, RawRecord, varint

Mutation = Callable[[Draft], None]
FAR_MS: Final = 57 * 365 * 24 * HOUR_MS
_MAX_32: Final = 2**31 - 1
_MAX_64: Final = 2**63 - 1
_SIZES: Final = ("key", "value", "header_key_0", "header_value_0")


def _any(draft: Draft) -> RawRecord:
    return draft.rng.choice(draft.records)


def _with_header(draft: Draft) -> RawRecord:
    record = _any(draft)
    if not record.headers:
        record.headers = [(b"h", b"header value")]
    return record


def _changed(name: str, data: bytes) -> Mutation:
    def apply(draft: Draft) -> None:
        record = _with_header(draft) if name.startswith("header_") else _any(draft)
        record.changed[name] = data

    return apply


def _sized(name: str, more: int) -> Mutation:
    """Give a key or value a size that is wrong by so much."""

    def apply(draft: Draft) -> None:
        record = _with_header(draft)
        data = {
            "key": record.key,
            "value": record.value,
            "header_key_0": record.headers[0][0],
            "header_value_0": record.headers[0][1],
        }[name]
        record.changed[f"{name}_size"] = varint(len(data or b"") + more)

    return apply


def _padded(name: str, size: int) -> Mutation:
    """Write a right number as a varint of more bytes than it needs."""

    def apply(draft: Draft) -> None:
        record = _with_header(draft)
        number = {
            "time": record.time_delta,
            "offset": record.offset_delta,
            "key_size": len(record.key or b""),
            "value_size": len(record.value or b""),
            "header_count": len(record.headers),
            "header_key_0_size": len(record.headers[0][0] or b""),
            "header_value_0_size": len(record.headers[0][1] or b""),
        }[name]
        record.changed[name] = varint(number, size)

    return apply


def _length(more: int = 0, *, exact: int | None = None, size: int = 0) -> Mutation:
    """Give a record another length, or the right one in more bytes."""

    def apply(draft: Draft) -> None:
        record = _any(draft)
        # Records are so short that their length takes one byte.
        right = len(RawRecord.encoded(record)) - 1
        record.changed["length"] = varint(right + more if exact is None else exact, size)

    return apply


def _time(relative_ms: int) -> Mutation:
    """Give a record a time stamp relative to now."""

    def apply(draft: Draft) -> None:
        _any(draft).time_delta = draft.now_ms + relative_ms - draft.base_timestamp

    return apply


def _exact_time(timestamp: int) -> Mutation:
    """Give a record a time stamp, as a sum of 64 bits."""

    def apply(draft: Draft) -> None:
        delta = timestamp - draft.base_timestamp
        _any(draft).time_delta = delta if -(2**63) <= delta <= _MAX_64 else delta - 2**64

    return apply


def _wrapped_time(draft: Draft) -> None:
    """Let the sum of base time stamp and delta exceed 64 bits."""
    _any(draft).time_delta = _MAX_64 - draft.base_timestamp + 1000


def _times_fall(draft: Draft) -> None:
    for number, each in enumerate(draft.records):
        each.time_delta = -1000 * number


def _times_jump(draft: Draft) -> None:
    for each in draft.records:
        each.time_delta = draft.rng.randint(-90_000, 90_000)


def _newest_first(draft: Draft) -> None:
    draft.records[0].time_delta = 60_000


def _no_times(draft: Draft) -> None:
    draft.base_timestamp = -1
    for each in draft.records:
        each.time_delta = 0


def _offsets(*deltas: int) -> Mutation:
    """Give the first records these offset deltas, and the others the right ones."""

    def apply(draft: Draft) -> None:
        for record, delta in zip(draft.records, deltas, strict=False):
            record.offset_delta = delta

    return apply


def _offsets_plus(draft: Draft) -> None:
    for each in draft.records:
        each.offset_delta += 1


def _offsets_reversed(draft: Draft) -> None:
    draft.records.reverse()


def _offsets_zero(draft: Draft) -> None:
    for each in draft.records:
        each.offset_delta = 0


def _gap(draft: Draft) -> None:
    draft.records[-1].offset_delta += 3


def _no_key(draft: Draft) -> None:
    _any(draft).key = None


def _no_keys(draft: Draft) -> None:
    for each in draft.records:
        each.key = None


def _empty_key(draft: Draft) -> None:
    _any(draft).key = b""


def _no_value(draft: Draft) -> None:
    _any(draft).value = None


def _header(key: bytes | None, value: bytes | None) -> Mutation:
    def apply(draft: Draft) -> None:
        _any(draft).headers = [(key, value)]

    return apply


def _many_headers(count: int) -> Mutation:
    def apply(draft: Draft) -> None:
        _any(draft).headers = [(b"", None)] * count

    return apply


def _big_value(draft: Draft) -> None:
    record = _any(draft)
    record.value = bytes(8 << 20 if draft.codec else 8 << 10)


def _cut(size: int) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.raw.append(lambda data: data[: max(len(data) - size, 0)])

    return apply


def _behind(data: bytes) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.raw.append(lambda raw: raw + data)

    return apply


def _one_more(draft: Draft) -> None:
    more = RawRecord(5, len(draft.records), b"more", b"not counted").encoded()
    draft.raw.append(lambda raw: raw + more)


def _one_fewer(draft: Draft) -> None:
    last = len(draft.records[-1].encoded())
    draft.raw.append(lambda raw: raw[:-last])


def _nothing(draft: Draft) -> None:
    draft.raw.append(lambda _: b"")


def _null(draft: Draft) -> None:
    draft.is_null = True


def _empty_records(draft: Draft) -> None:
    for each in draft.records:
        each.changed = {name: b"" for name in ("attributes", "time", "offset", "header_count")}
        each.changed |= {f"{name}{what}": b"" for name in _SIZES[:2] for what in ("", "_size")}
        each.headers = []


RECORDS: Final[dict[str, Mutation]] = {
    "record length -1": _length(exact=-1),
    "record length -2": _length(exact=-2),
    "record length 0": _length(exact=0),
    "record length one less": _length(-1),
    "record length one more": _length(1),
    "record length 2^31-1": _length(exact=_MAX_32),
    "record length 2^40": _length(exact=2**40),
    "record length in 2 bytes": _length(size=2),
    "record length in 5 bytes": _length(size=5),
    "record length in 6 bytes": _length(size=6),
    "record length in 11 bytes": _length(size=11),
    "record attributes 1": _changed("attributes", b"\1"),
    "record attributes 255": _changed("attributes", b"\xff"),
    "times fall": _times_fall,
    "times jump": _times_jump,
    "the newest is first": _newest_first,
    "no times": _no_times,
    "a record in 57 years": _time(FAR_MS),
    "a record in 30 minutes": _time(HOUR_MS // 2),
    "a record of 3 hours ago": _time(-3 * HOUR_MS),
    "a record of 57 years ago": _exact_time(1000),
    "a record at 0": _exact_time(0),
    "a record at 1": _exact_time(1),
    "a record at -1": _exact_time(-1),
    "a record at -2": _exact_time(-2),
    "a record at -2^63": _exact_time(-(2**63)),
    "a record at 2^63-1": _exact_time(_MAX_64),
    "a time beyond 64 bits": _wrapped_time,
    "time in 5 bytes": _padded("time", 5),
    "time in 10 bytes": _padded("time", 10),
    "time in 11 bytes": _padded("time", 11),
    "time of 70 bits": _changed("time", b"\xff" * 9 + b"\x7f"),
    "offsets from 1": _offsets_plus,
    "offsets all 0": _offsets_zero,
    "offsets fall": _offsets_reversed,
    "offsets with a gap": _gap,
    "offset 0 twice": _offsets(0, 0),
    "offset -1": _offsets(-1),
    "offset 2^31-1": _offsets(_MAX_32),
    "offset in 2 bytes": _padded("offset", 2),
    "offset in 5 bytes": _padded("offset", 5),
    "offset in 6 bytes": _padded("offset", 6),
    "offset of 2^40": _changed("offset", varint(2**40)),
    "no key": _no_key,
    "no keys": _no_keys,
    "an empty key": _empty_key,
    "no value": _no_value,
    **{f"{name} size -2": _changed(f"{name}_size", varint(-2)) for name in _SIZES},
    **{f"{name} size -1": _changed(f"{name}_size", varint(-1)) for name in _SIZES},
    **{f"{name} size -100": _changed(f"{name}_size", varint(-100)) for name in _SIZES},
    **{f"{name} size 2^31-1": _changed(f"{name}_size", varint(_MAX_32)) for name in _SIZES},
    **{f"{name} size 2^40": _changed(f"{name}_size", varint(2**40)) for name in _SIZES},
    **{f"{name} size one more": _sized(name, 1) for name in _SIZES},
    **{f"{name} size one less": _sized(name, -1) for name in _SIZES},
    **{f"{name} size in 5 bytes": _padded(f"{name}_size", 5) for name in _SIZES},
    **{f"{name} size in 6 bytes": _padded(f"{name}_size", 6) for name in _SIZES},
    "header count -1": _changed("header_count", varint(-1)),
    "header count -2": _changed("header_count", varint(-2)),
    "header count 0 before a header": _changed("header_count", varint(0)),
    "header count one more": _changed("header_count", varint(2)),
    "header count 10^6": _changed("header_count", varint(10**6)),
    "header count 2^31-1": _changed("header_count", varint(_MAX_32)),
    "header count in 5 bytes": _padded("header_count", 5),
    "header count in 6 bytes": _padded("header_count", 6),
    "a header without key": _header(None, b"value"),
    "a header without value": _header(b"key", None),
    "an empty header": _header(b"", b""),
    "a header key that is not UTF-8": _header(b"\xff\xfe", b"value"),
    "100 empty headers": _many_headers(100),
    "a byte behind the fields": _changed("tail", b"\0"),
    "bytes behind the fields": _changed("tail", b"0123456789"),
    "the last record cut by 1": _cut(1),
    "the last record cut by 4": _cut(4),
    "records cut by 30": _cut(30),
    "a zero behind the records": _behind(b"\0"),
    "bytes behind the records": _behind(b"behind the last record"),
    "one record more": _one_more,
    "one record fewer": _one_fewer,
    "no bytes of records": _nothing,
    "records of length 0": _empty_records,
}

RARE: Final[dict[str, Mutation]] = {
    "null instead of a batch": _null,
    "a value of 8 MiB of zeros": _big_value,
    "150,000 empty headers": _many_headers(150_000),
}
"""They cost time, so they are tried alone only."""
