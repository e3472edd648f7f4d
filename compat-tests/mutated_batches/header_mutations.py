"""Changes of a batch's header, and around it.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mutated_batches.draft import Draft
from mutated_batches.record_mutations import FAR_MS

Mutation = Callable[[Draft], None]
_MAX_32: Final = 2**31 - 1
_MAX_64: Final = 2**63 - 1
_OFTEN: Final = (0, 1, -1, -2, 1000, _MAX_64, -(2**63))


def _set(**fields: int) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.header.update(fields)

    return apply


def _bits(bits: int) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.header["attributes"] = draft.header.get("attributes", draft.codec) | bits

    return apply


def _codec(codec: int) -> Mutation:
    def apply(draft: Draft) -> None:
        attributes = draft.header.get("attributes", draft.codec)
        draft.header["attributes"] = attributes & ~7 | codec

    return apply


def _length(length: int) -> Mutation:
    """Give the batch a length that does not depend on its records."""

    def apply(draft: Draft) -> None:
        draft.whole.append(
            lambda data: data[:8] + length.to_bytes(4, "big", signed=True) + data[12:]
        )

    return apply


def _far(name: str) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.header[name] = draft.now_ms + FAR_MS

    return apply


def _max_of_last(draft: Draft) -> None:
    draft.header["max_timestamp"] = draft.base_timestamp + draft.records[-1].time_delta


def _max_is_base(draft: Draft) -> None:
    draft.header["max_timestamp"] = draft.base_timestamp


def _max_plus(more: int) -> Mutation:
    def apply(draft: Draft) -> None:
        newest = max(each.time_delta for each in draft.records)
        draft.header["max_timestamp"] = draft.base_timestamp + newest + more

    return apply


def _base_moves(base: int) -> Mutation:
    """Give the header another base time stamp, and adjust the deltas to keep the records' times."""

    def apply(draft: Draft) -> None:
        for each in draft.records:
            each.time_delta += draft.base_timestamp - base
        draft.base_timestamp = base

    return apply


def _counts(*, last: int | None = None, count: int | None = None) -> Mutation:
    """Add these numbers to last offset delta and record count."""

    def apply(draft: Draft) -> None:
        size = len(draft.records)
        if last is not None:
            draft.header["last_offset_delta"] = size - 1 + last
        if count is not None:
            draft.header["record_count"] = size + count

    return apply


def _cut_to(size: int) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.whole.append(lambda data: data[:size])

    return apply


def _behind(data: bytes) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.whole.append(lambda batch: batch + data)

    return apply


def _twice(draft: Draft) -> None:
    draft.whole.append(lambda batch: batch + batch)


def _producer(producer_id: int, epoch: int, sequence: int) -> Mutation:
    return _set(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


HEADERS: Final[dict[str, Mutation]] = {
    "as it should be": lambda _: None,
    "batch length one more": _set(length=1),
    "batch length one less": _set(length=-1),
    **{
        f"batch length {each}": _length(each) for each in (0, -1, 13, 14, 48, 49, _MAX_32, -(2**31))
    },
    **{f"base offset {each}": _set(base_offset=each) for each in (1, -1, 100, 2**62)},
    **{f"leader epoch {each}": _set(leader_epoch=each) for each in (0, 5, -2, _MAX_32)},
    **{f"magic {each}": _set(magic=each) for each in (0, 1, 3, 127, -1)},
    "crc one more": _set(crc=1),
    "crc another": _set(crc=12_345_678),
    **{f"attributes | {1 << bit:#x}": _bits(1 << bit) for bit in range(3, 16)},
    "attributes | 0x48": _bits(0x48),
    "attributes | 0x18": _bits(0x18),
    "attributes | 0xff80": _bits(0xFF80),
    "attributes | 0x88": _bits(0x88),
    **{f"codec {each}": _codec(each) for each in range(8)},
    **{f"last offset delta {each}": _set(last_offset_delta=each) for each in (-1, 0, _MAX_32)},
    "last offset delta -2^31": _set(last_offset_delta=-(2**31)),
    "last offset delta one more": _counts(last=1),
    "last offset delta one less": _counts(last=-1),
    **{f"base time {each}": _set(base_timestamp=each) for each in _OFTEN},
    "base time in 57 years": _far("base_timestamp"),
    **{f"base time {each}, times the same": _base_moves(each) for each in (0, 1, -1, -2, 1000)},
    **{f"max time {each}": _set(max_timestamp=each) for each in _OFTEN},
    "max time in 57 years": _far("max_timestamp"),
    "max time of the last record": _max_of_last,
    "max time of the base": _max_is_base,
    "max time one more": _max_plus(1),
    "max time one less": _max_plus(-1),
    "producer 5, epoch 0, sequence 0": _producer(5, 0, 0),
    "producer 5, epoch 3, sequence 7": _producer(5, 3, 7),
    "producer 5, epoch -1, sequence 0": _producer(5, -1, 0),
    "producer 5, epoch -5, sequence 0": _producer(5, -5, 0),
    "producer 5, epoch 0, sequence -1": _producer(5, 0, -1),
    "producer 5, epoch 0, sequence -2": _producer(5, 0, -2),
    "producer 5, epoch 32767, sequence 0": _producer(5, 32767, 0),
    "producer 5, epoch 0, sequence 2^31-1": _producer(5, 0, _MAX_32),
    "producer 5 alone": _set(producer_id=5),
    "producer -2, epoch 0, sequence 0": _producer(-2, 0, 0),
    "producer 2^62, epoch 0, sequence 0": _producer(2**62, 0, 0),
    "no producer, epoch 5": _set(producer_epoch=5),
    "no producer, sequence 5": _set(base_sequence=5),
    "no producer, epoch 0, sequence 0": _producer(-1, 0, 0),
    "no producer, sequence -2": _set(base_sequence=-2),
    **{f"count {each}": _set(record_count=each) for each in (0, -1, 1, _MAX_32, -(2**31))},
    "count one more": _counts(count=1),
    "count one less": _counts(count=-1),
    "one counted more": _counts(last=1, count=1),
    "one counted less": _counts(last=-1, count=-1),
    "a million counted more": _counts(last=10**6, count=10**6),
    "all of 2^31-1 counted": _set(last_offset_delta=_MAX_32 - 1, record_count=_MAX_32),
    "none counted": _set(last_offset_delta=-1, record_count=0),
    **{f"cut to {each} bytes": _cut_to(each) for each in (0, 1, 11, 12, 16, 17, 21, 60, 61, 62)},
    "a byte after the batch": _behind(b"\0"),
    "12 bytes after the batch": _behind(bytes(12)),
    "the batch twice": _twice,
}
