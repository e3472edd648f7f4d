"""Frames and requests that no client should send: they cost their connection, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.neighbour import TOPIC, neighboured, resident_bytes
from tests.worlds.wire_client import (
    Closed,
    module_of,
    produce_request,
    records_batch,
    request_frame,
)
from tidegate_gateway.unserved import BY_KEY
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages import api_versions
from tidegate_protocol.messages.metadata import MetadataRequest

CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(200)
MAX_FRAME_BYTES = 100 << 20
USED_BY_ALL = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS}


@dataclass(frozen=True)
class Closes:
    """Bytes, and the reason in the log for which their connection is closed."""

    data: bytes
    reason: str


def header(key: int, version: int, client: bytes = b"\0\4test") -> bytes:
    return (
        key.to_bytes(2, "big", signed=True)
        + version.to_bytes(2, "big", signed=True)
        + bytes(4)
        + client
    )


def length(size: int) -> bytes:
    return size.to_bytes(4, "big", signed=True)


def with_body(key: int, version: int, body: str) -> bytes:
    """Return a frame with the header of this version, flexible or not, and a body from hex."""
    tags = b"\0" if version >= APIS[key].first_flexible_version else b""
    return frame(header(key, version) + tags + bytes.fromhex(body))


BAD_FRAMES = {
    "negative length": Closes(length(-1), "frame of -1 bytes"),
    "most negative length": Closes(length(-(2**31)), "frame of -2147483648 bytes"),
    "huge length": Closes(length(2**31 - 1), "frame of 2147483647 bytes"),
    "one byte too long": Closes(length(MAX_FRAME_BYTES + 1), f"limit {MAX_FRAME_BYTES}"),
    "large frame that is not Produce": Closes(
        length(9 << 20) + header(ApiKey.METADATA, 12) + b"\0", "that is not Produce"
    ),
    "TLS": Closes(CLIENT_HELLO, "TLS to a PLAINTEXT listener"),
    "HTTP": Closes(b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP to a Kafka listener"),
    "empty frame": Closes(length(0), "RequestHeader"),
    "half a header": Closes(frame(header(ApiKey.METADATA, 0)[:7]), "RequestHeader"),
    "client id past the end": Closes(
        frame(header(ApiKey.METADATA, 0, b"\x7f\xff")), "ends inside its request header"
    ),
    "client id of length -2": Closes(
        frame(header(ApiKey.METADATA, 0, b"\xff\xfe")), "client id has length -2"
    ),
    "client id that is no text": Closes(
        frame(header(ApiKey.METADATA, 0, b"\0\2\xc3\x28")), "RequestHeader"
    ),
    "unknown API key": Closes(frame(header(9999, 0)), "unknown API key 9999"),
    "negative API key": Closes(frame(header(-1, 0)), "unknown API key -1"),
    "version from the future": Closes(
        frame(header(ApiKey.METADATA, 99) + b"\0"), "Metadata version 99"
    ),
    "negative version": Closes(frame(header(ApiKey.METADATA, -1)), "Metadata version -1"),
    "announced but refused": Closes(frame(header(ApiKey.PRODUCE, 2)), "Produce version 2"),
    "Fetch of old": Closes(frame(header(ApiKey.FETCH, 3)), "Fetch version 3"),
    "more topics than bytes": Closes(with_body(ApiKey.METADATA, 0, "7fffffff"), "Metadata"),
    "topics of length -2": Closes(with_body(ApiKey.METADATA, 1, "fffffffe"), "Metadata"),
    "compact array of 2^32 - 2": Closes(with_body(ApiKey.METADATA, 12, "ffffffff0f"), "Metadata"),
    "array length of six bytes": Closes(with_body(ApiKey.METADATA, 12, "ffffffffff0f"), "varint"),
    "string past the end": Closes(with_body(ApiKey.METADATA, 0, "00000001 7fff 61"), "Metadata"),
    "string of length -2": Closes(with_body(ApiKey.METADATA, 0, "00000001 fffe"), "Metadata"),
    "string that is no text": Closes(
        with_body(ApiKey.METADATA, 0, "00000001 0002 c328"), "Metadata"
    ),
    "tags without end": Closes(with_body(ApiKey.METADATA, 12, "01 01 00 ffffffff0f"), "tag"),
    "a tag past the end": Closes(
        with_body(ApiKey.METADATA, 12, "01 01 00 01 00 ff7f 61"), "Metadata"
    ),
    "produce with 2^31 - 1 topics": Closes(
        with_body(ApiKey.PRODUCE, 3, "ffff ffff 00000000 7fffffff"), "Produce"
    ),
    "records past the end": Closes(
        with_body(
            ApiKey.PRODUCE, 3, "ffff ffff 00000000 00000001 0001 61 00000001 00000000 7fffffff 00"
        ),
        "Produce",
    ),
    "records of length -2": Closes(
        with_body(
            ApiKey.PRODUCE, 3, "ffff ffff 00000000 00000001 0001 61 00000001 00000000 fffffffe"
        ),
        "Records",
    ),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
async def test_bad_frame_closes_with_a_reason(name: str, autojump_clock: MockClock) -> None:
    row = BAD_FRAMES[name]
    async with neighboured() as scene:
        await scene.offender.send(row.data)
        with pytest.raises(Closed):
            await scene.offender.receive()
        [reason] = scene.reasons + [str(each["what"]) for each in scene.refused]
        assert row.reason in reason


@pytest.mark.parametrize("key", [each for each in APIS if each not in BY_KEY])
async def test_body_without_its_last_byte(key: int, autojump_clock: MockClock) -> None:
    facts = APIS[key]
    for version in range(facts.min_version, facts.max_version + 1):
        request = getattr(module_of(facts.name), f"{facts.name}Request")()
        whole = request_frame(facts.name, version, request)
        if len(whole) - 4 == len(encode_request_header(key, version, 1, client_id="test")):
            continue
        async with neighboured() as scene:
            await scene.offender.send(frame(whole[4:-1]))
            with pytest.raises(Closed):
                await scene.offender.receive()
            [reason] = scene.reasons
            assert reason.startswith(f"{facts.name} v{version}: ")


async def test_frame_cut_off_by_the_client(autojump_clock: MockClock) -> None:
    whole = request_frame("Produce", 9, produce_request([(TOPIC, 0, records_batch(b"x"))]))
    async with neighboured() as scene:
        for size in range(len(whole)):
            client = scene.connect()
            await client.send(whole[:size])
            client.transport.close()
        await trio.sleep(1)
        assert scene.reasons == []
        assert await scene.connect().fetch_values(TOPIC, 0, 0) == []


@pytest.mark.parametrize("size", [1, 4, 5, 20])
async def test_frame_that_never_ends(size: int, autojump_clock: MockClock) -> None:
    whole = request_frame("Metadata", 12, MetadataRequest())
    async with neighboured() as scene:
        await scene.offender.send(whole[:size])
        await trio.sleep(59)
        assert scene.reasons == []
        with pytest.raises(Closed):
            await scene.offender.receive()
        assert scene.reasons == ["a request was not sent to its end in time"]


async def test_requests_before_a_bad_frame_are_answered(autojump_clock: MockClock) -> None:
    good = request_frame("ApiVersions", 0, api_versions.ApiVersionsRequest())
    async with neighboured() as scene:
        await scene.offender.send(good + frame(header(9999, 0)))
        assert await scene.offender.receive()
        with pytest.raises(Closed):
            await scene.offender.receive()


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
@pytest.mark.parametrize("body", [b"", b"\0", b"\xff" * 40])
async def test_api_versions_of_an_unknown_version(
    version: int, body: bytes, autojump_clock: MockClock
) -> None:
    async with neighboured() as scene:
        await scene.offender.send(frame(header(ApiKey.API_VERSIONS, version) + b"\0" + body))
        answer = memoryview(await scene.offender.receive())
        _, position = decode_response_header(answer, ApiKey.API_VERSIONS, 0)
        response = api_versions.decode_response(answer[position:], 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert {each.api_key for each in response.api_keys} >= USED_BY_ALL
        again = await scene.offender.call("ApiVersions", 3, client_software("test", "1.0"))
        assert again.error_code == 0


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a", ""), ("a b", "1"), ("-a", "1")])
async def test_api_versions_with_a_malformed_name(
    name: str, version: str, autojump_clock: MockClock
) -> None:
    async with neighboured() as scene:
        answer = await scene.offender.call("ApiVersions", 3, client_software(name, version))
        assert answer.error_code == ErrorCode.INVALID_REQUEST


def client_software(name: str, version: str) -> api_versions.ApiVersionsRequest:
    return api_versions.ApiVersionsRequest(
        client_software_name=name, client_software_version=version
    )


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.METADATA])
async def test_a_declared_length_costs_no_memory(key: ApiKey, autojump_clock: MockClock) -> None:
    declared = {ApiKey.PRODUCE: MAX_FRAME_BYTES, ApiKey.METADATA: 7 << 20}[key]
    async with neighboured() as scene:
        before = resident_bytes()
        stalled = [scene.connect() for _ in range(20)]
        for client in stalled:
            await client.send(length(declared) + header(key, 9) + b"\0")
        await scene.neighbour_works()
        assert resident_bytes() - before < 30 << 20
        await trio.sleep(90)
        assert set(scene.reasons) <= {
            "a request was not sent to its end in time",
            "there was no memory for its request in time",
            "a request came too slowly while others waited for its memory",
        }
        assert len(scene.reasons) == len(stalled)
        for client in stalled:
            client.transport.close()


async def test_stalled_huge_frames_hold_up_only_their_like(autojump_clock: MockClock) -> None:
    async with neighboured({"buffered.bytes.max": str(128 << 20)}) as scene:
        stalled = [scene.connect() for _ in range(5)]
        for client in stalled:
            await client.send(length(63 << 20) + header(ApiKey.PRODUCE, 9) + b"\0")
        await trio.sleep(1)
        await scene.neighbour_works()
        with trio.fail_after(1):
            answer = await scene.offender.produce(TOPIC, 0, records_batch(b"x" * 200_000))
        assert answer.error_code == 0
        for client in stalled:
            client.transport.close()
