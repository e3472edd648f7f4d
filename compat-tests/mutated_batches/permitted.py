"""Answers and stored batches of a gateway that differ from Apache Kafka 4.3.1's, by name.  Pure.

Kafka checks the records of a plain batch.  It streams over the records of a compressed batch
without a check of their lengths, so it accepts some damage only there.  If readers would fail on a
batch, a gateway refuses the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mutated_batches.comparing import Difference
from tidegate_protocol.batches import LOG_APPEND_TIME
from tidegate_protocol.compression import Codec

_REFUSED: Final = 87
_INVALID_TIME: Final = 32
_CORRUPT: Final = 2
_ATTRIBUTES: Final = 1
_BASE_TIME: Final = 3
_KEPT_BITS: Final = 0x1F
_SUMS: Final = ("a time beyond", "time of 70", "a record at -2^63", "base time 9", "base time -9")
_SEVERAL_STREAMS: Final = {
    Codec.GZIP: ("two streams", "an empty stream", "members of 7 bytes"),
    Codec.SNAPPY: ("two streams", "an empty stream"),
    Codec.LZ4: ("an empty stream", "a stream with bytes behind"),
}
_AFTER: Final = ("a byte after the batch", "12 bytes after", "batch length")


@dataclass(frozen=True, slots=True)
class Permitted:
    """An intended difference."""

    name: str
    reason: str
    allows: Callable[[Difference], bool]


def permission(difference: Difference) -> Permitted | None:
    """Return the entry of PERMITTED that allows a difference; None if there is none."""
    return next((each for each in PERMITTED if each.allows(difference)), None)


def _has(difference: Difference, *starts: str) -> bool:
    return any(each.startswith(starts) for each in difference.case.changes)


def _codes(difference: Difference, kafka: tuple[Any, ...], gateway: int) -> bool:
    is_code = difference.name == "code"
    return is_code and difference.kafka in kafka and difference.gateway == gateway


def _only(difference: Difference, field: int) -> bool:
    """Return whether both have one stored batch, and differ only in this field."""
    if difference.name != "batches" or not difference.kafka or not difference.gateway:
        return False
    [one], [other] = difference.kafka, difference.gateway
    differing = [at for at, each in enumerate(one) if each != other[at]]
    return differing == [field]


def _bits(difference: Difference) -> bool:
    if not _only(difference, _ATTRIBUTES):
        return False
    [one], [other] = difference.kafka, difference.gateway
    return bool(one[_ATTRIBUTES] & _KEPT_BITS == other[_ATTRIBUTES])


def _unread_length(difference: Difference) -> bool:
    is_skipped = _has(difference, "record length", "header_value_0 size one more")
    return difference.case.codec != Codec.NONE and is_skipped


def _behind_stream(difference: Difference) -> bool:
    names = _SEVERAL_STREAMS.get(Codec(difference.case.codec), ())
    is_behind = any(each.endswith("behind the stream") for each in difference.case.changes)
    return is_behind or _has(difference, *names)


PERMITTED: Final = (
    Permitted(
        "a text",
        "A refusal says why; Kafka has no text where it names no records.",
        lambda each: each.name == "text" and each.kafka is None,
    ),
    Permitted(
        "no unknown error",
        "Kafka answers UNKNOWN_SERVER_ERROR if a codec or Java itself throws, and nothing at all if"
        " a partition has no records; here such a batch is malformed.",
        lambda each: _codes(each, (-1, "silence"), _REFUSED),
    ),
    Permitted(
        "numbering",
        "Kafka stores plain records whose offset deltas are not 0, 1, 2 and so on as they are, and"
        " numbers records anew that it compresses again; here they are malformed.",
        lambda each: _codes(each, (0, _INVALID_TIME), _REFUSED) and _has(each, "offset"),
    ),
    Permitted(
        "lengths of compressed records",
        "Kafka does not look at them; its consumers do, and fail.",
        lambda each: _codes(each, (0,), _REFUSED) and _unread_length(each),
    ),
    Permitted(
        "bytes behind a stream",
        "Java ignores what follows a gzip member, a snappy block or an lz4 frame, and reads gzip"
        " members and xerial streams that follow each other; other clients do not: at a second gzip"
        " member librdkafka stops for good, and an empty first one ends its process.",
        lambda each: _codes(each, (0,), _REFUSED) and _behind_stream(each),
    ),
    Permitted(
        "bytes behind a batch",
        "Kafka ignores up to 11 of them, and calls more of them a corrupt batch, which clients send"
        " again; here the partition has malformed records.",
        lambda each: _codes(each, (0, _CORRUPT), _REFUSED) and _has(each, *_AFTER),
    ),
    Permitted(
        "times beyond 64 bits",
        "Kafka lets base time stamp and delta overflow, and judges what comes out; here the record"
        " is malformed.",
        lambda each: (
            _has(each, *_SUMS)
            and (each.name == "errors" or _codes(each, (0, _INVALID_TIME), _REFUSED))
        ),
    ),
    Permitted(
        "the broker's bits",
        "Kafka keeps unknown attributes and a delete horizon unless it must write the header;"
        " here they are always cleared.",
        _bits,
    ),
    Permitted(
        "base time of records compressed again",
        "Kafka takes the first record's; here the producer's stays, and the records are the same.",
        lambda each: _only(each, _BASE_TIME),
    ),
    Permitted(
        "a base time below -1 of records compressed again",
        "Kafka cannot write it.",
        lambda each: _codes(each, (-1,), 0) and _has(each, "base time -2"),
    ),
    Permitted(
        "an epoch below -1",
        "No producer has one; Kafka compares it with -1, here it is the producer's first.",
        lambda each: _codes(each, (47,), 0) and _has(each, "producer 5, epoch -5"),
    ),
    Permitted(
        "the largest of no time stamps",
        "Kafka finds the first record, at -1; here nothing is found.",
        lambda each: (
            each.name == "found"
            and _has(each, "no times")
            and each.kafka[0] == [0, -1]
            and each.kafka[1:] == each.gateway[1:]
        ),
    ),
    Permitted(
        "times of records under a false LogAppendTime",
        "Kafka judges the header's largest time stamp for each record; here each has its own.",
        lambda each: _codes(each, (_REFUSED,), _INVALID_TIME) and _has(each, "attributes | 0x48"),
    ),
    Permitted(
        "records of a forbidden LogAppendTime",
        "Kafka names all records; here the batch is refused as a whole.",
        lambda each: (
            each.name == "errors"
            and each.gateway is None
            and _has(each, *(f"attributes | {bits:#x}" for bits in (LOG_APPEND_TIME, 0x48, 0x88)))
        ),
    ),
)
