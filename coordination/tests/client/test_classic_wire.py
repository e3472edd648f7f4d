"""Versions and frames of a client of classic clusters."""

from __future__ import annotations

import pytest

from tests.worlds.scripted_broker import answer_frame
from tidegate_coordination.client.errors import Unsupported
from tidegate_coordination.client.wire.answer_reader import AnswerReader
from tidegate_coordination.client.wire.versions import (
    VersionRange,
    choose_version,
    read_api_versions,
    version_to_ask_again,
)
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import frame
from tidegate_protocol.messages import api_versions as av

# (broker's first and last, caller's min and max, chosen); ours is Fetch 4 to 18.
CHOICES = [
    ((0, 99), {}, 18),
    ((0, 11), {}, 11),
    ((4, 4), {}, 4),
    ((0, 99), {"max_version": 12}, 12),
    ((0, 11), {"max_version": 12}, 11),
    ((0, 99), {"min_version": 13}, 18),
    ((13, 99), {"min_version": 4, "max_version": 13}, 13),
]
REFUSALS = [
    ((0, 3), {}, "Fetch 0 to 3, and 4 to 18 is needed"),
    ((19, 25), {}, "Fetch 19 to 25, and 4 to 18 is needed"),
    ((0, 12), {"min_version": 13}, "and 13 to 18 is needed"),
    ((13, 18), {"max_version": 12}, "and 4 to 12 is needed"),
]


@pytest.mark.parametrize(("theirs", "bounds", "chosen"), CHOICES)
def test_the_highest_common_version_is_chosen(
    theirs: tuple[int, int], bounds: dict[str, int], chosen: int
) -> None:
    assert choose_version("Fetch", {ApiKey.FETCH: VersionRange(*theirs)}, **bounds) == chosen


@pytest.mark.parametrize(("theirs", "bounds", "said"), REFUSALS)
def test_no_common_version_is_an_error(
    theirs: tuple[int, int], bounds: dict[str, int], said: str
) -> None:
    with pytest.raises(Unsupported, match=said):
        choose_version("Fetch", {ApiKey.FETCH: VersionRange(*theirs)}, **bounds)


def test_an_api_that_the_broker_does_not_name_is_an_error() -> None:
    with pytest.raises(Unsupported, match="does not serve DescribeProducers"):
        choose_version("DescribeProducers", {ApiKey.FETCH: VersionRange(0, 11)})


@pytest.mark.parametrize(
    ("rows", "again"),
    [([], 0), ([av.ApiVersion(18, 0, 2)], 2), ([av.ApiVersion(18, 0, 9)], 4)],
)
def test_a_refusal_of_the_version_is_read_in_version_0(
    rows: list[av.ApiVersion], again: int
) -> None:
    body = bytes(av.encode_response(av.ApiVersionsResponse(35, rows), 0))
    response = read_api_versions(memoryview(body), 4)
    assert response == av.ApiVersionsResponse(35, rows)
    assert version_to_ask_again(response) == again


# -- frames ---------------------------------------------------------------------------------------

WIRE = frame(b"first") + frame(b"") + frame(b"x" * 300)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 13, 100, 1000])
def test_answers_survive_any_split(size: int) -> None:
    reader = AnswerReader(300)
    found = [
        bytes(each)
        for start in range(0, len(WIRE), size)
        for each in reader.receive(WIRE[start : start + size])
    ]
    assert found == [b"first", b"", b"x" * 300]
    assert reader.missing_bytes == 0


def test_the_reader_says_how_much_is_missing() -> None:
    reader = AnswerReader(300)
    assert list(reader.receive(frame(b"x" * 300)[:104])) == []
    assert reader.missing_bytes == 200


def test_each_answer_has_memory_of_its_own() -> None:
    received = bytearray(WIRE)
    first, _, last = AnswerReader(300).receive(received)
    received[:] = bytes(len(received))
    assert bytes(first) == b"first"
    assert first.obj is not last.obj


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ((301).to_bytes(4, "big"), "an answer of 301 bytes, and the limit is 300"),
        (b"\xff\xff\xff\xff", "an answer of -1 bytes"),
        (b"\x15\x03\x03\0\2\2\x50", "set security.protocol=SSL"),
        (b"HTTP/1.1 400 Bad Request", "speaks HTTP"),
    ],
)
def test_a_bad_length_is_refused_before_memory_is_taken(data: bytes, said: str) -> None:
    with pytest.raises(RemoteProtocolError, match=said):
        list(AnswerReader(300).receive(data))


def test_frames_before_a_bad_one_are_yielded() -> None:
    answers = AnswerReader(300).receive(frame(b"good") + b"\xff\xff\xff\xff")
    assert bytes(next(answers)) == b"good"
    with pytest.raises(RemoteProtocolError):
        next(answers)


def test_the_scripted_broker_writes_what_a_broker_writes() -> None:
    found = answer_frame(7, "ApiVersions", 0, av.ApiVersionsResponse(0, []))
    assert found == bytes.fromhex("0000000a 00000007 0000 00000000")
