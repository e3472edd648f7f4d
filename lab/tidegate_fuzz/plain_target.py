"""Target: the fast path of Produce, judged by the generated codec."""

from __future__ import annotations

from random import Random
from typing import Final

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.headers import decode_request_header, response_header
from tidegate_protocol.messages import produce
from tidegate_protocol.plain_produce import (
    FIRST_VERSION,
    LAST_VERSION,
    TOPIC_IDS_FROM,
    Answer,
    LoneReply,
    PlainProduce,
    encode_plain,
    prefix_end,
    read_plain,
)

from .connection_inputs import produce_frames, transactional_produce_frames

_LENGTH_BYTES: Final = 4


class PlainProduceTarget:
    """Input: a frame without its length."""

    head_bytes = 0
    fixed_bytes = 64 * 1024
    bytes_per_byte = 128
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        frames = [each for _ in range(3) for each in produce_frames(rng)]
        frames += transactional_produce_frames(rng)
        return [each[_LENGTH_BYTES:] for each in frames]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""
        if rng.random() < 0.7:
            data[0:2] = b"\0\0"
            version = rng.randint(FIRST_VERSION, LAST_VERSION)
            data[2:4] = version.to_bytes(2, "big") if rng.random() < 0.1 else data[2:4]

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        frame = memoryview(data)
        plain = read_plain(frame)
        if plain is None:
            return
        try:
            header = decode_request_header(frame)
        except RemoteProtocolError:
            # The one difference: the fast path does not read the client id, so it need not be text.
            assert not _is_text(frame[10 : 10 + int.from_bytes(frame[8:10], "big")])
            return
        assert (header.api_key, header.api_version) == (ApiKey.PRODUCE, plain.version)
        assert header.correlation_id == plain.correlation_id
        try:
            request = produce.decode_request(frame[header.body_position :], plain.version)
        except RemoteProtocolError as error:
            raise AssertionError(f"taken as plain, but {error}") from error
        assert request.transactional_id == plain.transactional_id
        assert (request.acks, request.timeout_ms) == (plain.acks, plain.timeout_ms)
        assert _by_topic(request, plain.version) == _plain_topics(frame, plain)
        _answer(plain)
        _look_at_prefix(frame, plain)


def _is_text(data: memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _by_topic(request: produce.ProduceRequest, version: int) -> object:
    return [
        (
            each.topic_id if version >= TOPIC_IDS_FROM else each.name,
            [(part.index, part.records) for part in each.partition_data],
        )
        for each in request.topic_data
    ]


def _plain_topics(frame: memoryview, plain: PlainProduce) -> object:
    return [
        (key, [(index, frame[start:end]) for index, start, end in parts])
        for key, parts in plain.topics
    ]


def _answer(plain: PlainProduce) -> None:
    """Check that the fast path's answer has the bytes that the codec would write."""
    answers: list[tuple[str | bytes, list[Answer]]] = [
        (key, [(index, start, -1, end) for index, start, end in parts])
        for key, parts in plain.topics
    ]
    response = produce.ProduceResponse(
        [
            produce.TopicProduceResponse(
                "" if isinstance(key, bytes) else key,
                key if isinstance(key, bytes) else bytes(16),
                [
                    produce.PartitionProduceResponse(
                        index, 0, base_offset, append_time, log_start_offset=log_start
                    )
                    for index, base_offset, append_time, log_start in parts
                ],
            )
            for key, parts in answers
        ]
    )
    head = response_header(plain.correlation_id, ApiKey.PRODUCE, plain.version)
    body = head + produce.encode_response(response, plain.version)
    written = encode_plain(plain.version, plain.correlation_id, answers)
    assert written == len(body).to_bytes(4, "big") + body
    [(key, parts), *others] = answers
    if not others and len(parts) == 1:
        [(index, base_offset, append_time, log_start)] = parts
        lone = LoneReply(key, index)
        assert lone.encode(plain.correlation_id, base_offset, append_time, log_start) == written


def _look_at_prefix(frame: memoryview, plain: PlainProduce) -> None:
    [(_, parts), *others] = plain.topics
    if not others and len(parts) == 1:
        [(_, start, end)] = parts
        found = prefix_end(frame, start, end)
        assert found is None or found < start
