"""Plain requests are read and answered as by the generated codec; other requests are not read."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.headers import decode_request_header, encode_request_header, response_header
from tidegate_protocol.messages import produce as codec
from tidegate_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidegate_protocol.plain_produce import (
    LoneReply,
    PlainProduce,
    TopicKey,
    encode_plain,
    prefix_end,
    read_plain,
    read_records,
)

versions = st.integers(9, 13)
ids = st.one_of(st.none(), st.text(min_size=1, max_size=9), st.just("i" * 126))
names = st.text(min_size=1, max_size=20).filter(lambda name: len(name.encode()) < 126)
sizes = st.one_of(st.integers(1, 300), st.sampled_from([126, 127, 16382, 16383, 16384]))
parts = st.lists(st.tuples(st.integers(-1, 2**31 - 1), sizes), min_size=1, max_size=4)
topics = st.lists(st.tuples(names, st.binary(min_size=16, max_size=16), parts), max_size=3)
numbers = st.integers(-1, 2**63 - 1)


def request_of(
    chosen: list[tuple[str, bytes, list[tuple[int, int]]]],
    version: int,
    *,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    by_id = version >= 13
    return ProduceRequest(
        transactional_id,
        acks,
        30_000,
        topic_data=[
            TopicProduceData(
                "" if by_id else name,
                topic_id if by_id else bytes(16),
                [PartitionProduceData(index, bytes([size % 251]) * size) for index, size in found],
            )
            for name, topic_id, found in chosen
        ],
    )


def frame_of(request: ProduceRequest, version: int, client_id: str | None = "client") -> memoryview:
    head = encode_request_header(ApiKey.PRODUCE, version, 77, client_id=client_id)
    return memoryview(bytes(head + codec.encode_request(request, version)))


def seen(plain: PlainProduce, frame: memoryview) -> list[tuple[TopicKey, list[tuple[int, bytes]]]]:
    return [
        (key, [(index, bytes(frame[start:end])) for index, start, end in found])
        for key, found in plain.topics
    ]


@given(topics, versions, st.one_of(st.none(), st.text(max_size=9)), st.integers(-1, 1), ids)
def test_a_plain_request_is_read_as_the_codec_reads_it(
    chosen: list[tuple[str, bytes, list[tuple[int, int]]]],
    version: int,
    client_id: str | None,
    acks: int,
    transactional_id: str | None,
) -> None:
    request = request_of(chosen, version, acks=acks, transactional_id=transactional_id)
    frame = frame_of(request, version, client_id)
    plain = read_plain(frame)
    header = decode_request_header(frame)
    decoded = codec.decode_request(frame[header.body_position :], version)
    if not chosen:
        assert plain is None
        return
    assert plain is not None
    assert (plain.version, plain.correlation_id) == (version, 77)
    assert (plain.acks, plain.timeout_ms) == (acks, 30_000)
    assert plain.transactional_id == decoded.transactional_id == transactional_id
    assert seen(plain, frame) == [
        (
            topic.topic_id if version >= 13 else topic.name,
            [(each.index, bytes(each.records or b"")) for each in topic.partition_data],
        )
        for topic in decoded.topic_data
    ]


@given(names, st.binary(min_size=16, max_size=16), sizes, versions, ids)
def test_a_lone_batch_is_found_after_a_known_prefix(
    name: str, topic_id: bytes, size: int, version: int, transactional_id: str | None
) -> None:
    def of_size(count: int) -> memoryview:
        chosen = [(name, topic_id, [(3, count)])]
        request = request_of(chosen, version, transactional_id=transactional_id)
        return frame_of(request, version)

    frame = of_size(size)
    plain = read_plain(frame)
    assert plain is not None
    [(_, [(_, start, end)])] = plain.topics
    position = prefix_end(frame, start, end)
    assert position is not None
    assert read_records(frame, position) == (start, end)
    other = of_size(size + 1000)
    assert bytes(other[8:position]) == bytes(frame[8:position])
    place = read_records(other, position)
    assert place is not None
    assert place[1] - place[0] == size + 1000


@settings(max_examples=30)
@given(topics.filter(bool), versions, ids)
def test_a_damaged_request_is_left_to_the_codec(
    chosen: list[tuple[str, bytes, list[tuple[int, int]]]],
    version: int,
    transactional_id: str | None,
) -> None:
    request = request_of(chosen, version, transactional_id=transactional_id)
    frame = bytes(frame_of(request, version))
    for end in {*range(min(len(frame), 200)), len(frame) - 1, len(frame) - 2}:
        assert read_plain(memoryview(frame[:end])) is None
    assert read_plain(memoryview(frame + b"\0")) is None
    assert read_plain(memoryview(frame[:-1] + b"\1")) is None


def test_a_request_that_is_not_plain_is_left_to_the_codec() -> None:
    one = [("t", bytes(16), [(0, 100)])]
    assert read_plain(frame_of(request_of(one, 9), 9)) is not None
    assert read_plain(frame_of(request_of(one, 8), 8)) is None
    assert read_plain(frame_of(request_of(one, 9, transactional_id=""), 9)) is None
    assert read_plain(frame_of(request_of(one, 9, transactional_id="i" * 127), 9)) is None
    assert read_plain(frame_of(request_of([("n" * 127, bytes(16), [(0, 1)])], 9), 9)) is None
    assert read_plain(frame_of(request_of([("t", bytes(16), [(0, 1)] * 127)], 9), 9)) is None
    for records in (None, b""):
        data = [TopicProduceData("t", bytes(16), [PartitionProduceData(0, records)])]
        request = ProduceRequest(acks=-1, timeout_ms=1, topic_data=data)
        assert read_plain(frame_of(request, 9)) is None


def test_a_length_without_an_end_costs_nothing() -> None:
    frame = bytearray(frame_of(request_of([("t", bytes(16), [(0, 1 << 20)])], 9), 9))
    [(_, [(_, start, _)])] = (read_plain(memoryview(frame)) or PlainProduce(0, 0, 0, 0, [])).topics
    frame[start - 3 :] = b"\xff" * (len(frame) - start + 3)
    assert read_plain(memoryview(frame)) is None
    assert read_records(memoryview(frame), start - 3) is None


def test_a_length_of_too_many_bytes_gives_no_prefix() -> None:
    frame = bytes(frame_of(request_of([("t", bytes(16), [(0, 5)])], 9), 9))
    at = len(frame) - 3 - 5 - 1
    assert frame[at] == 6
    longer = memoryview(frame[:at] + b"\x86\x00" + frame[at + 1 :])
    plain = read_plain(longer)
    assert plain is not None
    [(_, [(_, start, end)])] = plain.topics
    assert bytes(longer[start:end]) == frame[at + 1 : at + 6]
    assert prefix_end(longer, start, end) is None


@given(
    st.lists(
        st.tuples(
            names,
            st.binary(min_size=16, max_size=16),
            st.lists(
                st.tuples(st.integers(0, 2**31 - 1), numbers, numbers, numbers),
                min_size=1,
                max_size=4,
            ),
        ),
        min_size=1,
        max_size=3,
    ),
    versions,
    st.integers(-(2**31), 2**31 - 1),
)
def test_an_answer_is_written_as_the_codec_writes_it(
    chosen: list[tuple[str, bytes, list[tuple[int, int, int, int]]]],
    version: int,
    correlation_id: int,
) -> None:
    by_id = version >= 13
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                "" if by_id else name,
                topic_id if by_id else bytes(16),
                [
                    PartitionProduceResponse(
                        index, base_offset=base, log_append_time_ms=time, log_start_offset=start
                    )
                    for index, base, time, start in answers
                ],
            )
            for name, topic_id, answers in chosen
        ]
    )
    body = response_header(correlation_id, ApiKey.PRODUCE, version) + bytes(
        codec.encode_response(response, version)
    )
    keyed: list[tuple[TopicKey, list[tuple[int, int, int, int]]]] = [
        (topic_id if by_id else name, answers) for name, topic_id, answers in chosen
    ]
    expected = len(body).to_bytes(4, "big") + body
    assert encode_plain(version, correlation_id, keyed) == expected
    if len(keyed) == 1 and len(keyed[0][1]) == 1:
        [(key, [(index, base, time, start)])] = keyed
        assert LoneReply(key, index).encode(correlation_id, base, time, start) == expected
