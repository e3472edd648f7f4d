"""The bytes for a connection: well-formed frames of all APIs, and ways to damage them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from random import Random
from typing import Any, Final

from tidegate_protocol.apis import APIS
from tidegate_protocol.frames import LENGTH_BYTES, frame
from tidegate_protocol.headers import encode_request_header
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import sync_group as sg
from tidegate_protocol.primitives import MAX_TEXT_BYTES
from tidegate_protocol.records import Record, build_batch

from .mutations import mutate
from .record_targets import NOW_MS, repair_batch, some_batches
from .shapes import message
from .transactions.inputs import lives, names_a_producer, transaction_requests, with_producer
from .wire_targets import snake

TOPIC: Final = "orders"
GROUP: Final = "group"
TOPIC_ID: Final = bytes(range(16))
"""Stands for the id of the topic; the sender replaces it."""
CLIENT: Final = "fuzz"
MEMBER_ID: Final = "fuzz-00000000-0000-0000-0000-000000000000"
"""Stands for the member id of the last answer."""
MAX_FRAMES: Final = 12
LONG_TEXTS: Final = ("x" * MAX_TEXT_BYTES, TOPIC, GROUP, "consumer", "1", "2")
MAX_BYTES: Final = 1 << 17
_HEAD_BYTES: Final = 8


def request(name: str, version: int, body: bytes | bytearray, client: str | None = CLIENT) -> bytes:
    """Return a frame."""
    [key] = [each.key for each in APIS.values() if each.name == name]
    return frame(encode_request_header(key, version, 7, client_id=client) + body)


def plain_frames(rng: Random) -> list[bytes]:
    """Return a default and random requests of every API in every version."""
    found: list[bytes] = []
    for facts in sorted(APIS.values()):
        module = import_module(f"tidegate_protocol.messages.{snake(facts.name)}")
        cls = getattr(module, f"{facts.name}Request")
        for version in range(facts.min_version, facts.max_version + 1):
            for _ in range(3):
                made = message(rng, cls, version, module.encode_request)
                if made is not None:
                    found.append(request(facts.name, version, made))
            found.append(request(facts.name, version, _default(module, cls, version)))
    return found


def _default(module: Any, cls: type, version: int) -> bytes:
    return bytes(module.encode_request(cls(), version))


def produce_frames(rng: Random) -> list[bytes]:
    """Return Produce requests that succeed, in all versions."""
    batches = some_batches(rng)
    frames: list[bytes] = []
    for version in range(3, 14):
        for acks in (-1, 1, 0):
            partitions = [
                pr.PartitionProduceData(rng.choice((0, 1, 1, 9)), rng.choice(batches))
                for _ in range(rng.choice((1, 1, 2, 4)))
            ]
            by_id = version >= 13
            topic = pr.TopicProduceData(
                "" if by_id else rng.choice((TOPIC, "compacted")),
                TOPIC_ID if by_id else bytes(16),
                partitions,
            )
            name = rng.choice((None, None, "writer"))
            body = pr.encode_request(pr.ProduceRequest(name, acks, 1000, [topic]), version)
            frames.append(request("Produce", version, body))
    return frames


def fetch_frames(rng: Random) -> list[bytes]:
    """Return Fetch requests that find records, in all versions."""
    frames: list[bytes] = []
    for version in range(4, 19):
        for session_epoch in (-1, 0):
            asked = fe.FetchPartition(
                rng.choice((0, 1)), fetch_offset=rng.choice((0, 1)), partition_max_bytes=1 << 20
            )
            by_id = version >= 13
            topic = fe.FetchTopic(
                "" if by_id else TOPIC, TOPIC_ID if by_id else bytes(16), partitions=[asked]
            )
            wanted = fe.FetchRequest(
                max_wait_ms=rng.choice((0, 100)), min_bytes=1, max_bytes=1 << 20, topics=[topic]
            )
            wanted.session_epoch = session_epoch if version >= 7 else -1
            frames.append(request("Fetch", version, fe.encode_request(wanted, version)))
    return frames


def group_frames(rng: Random) -> list[bytes]:
    """Return joins and syncs of existing members."""
    frames: list[bytes] = []
    protocols = [jg.JoinGroupRequestProtocol("range", b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff")]
    for version in range(10):
        instance = rng.choice((None, "i1")) if version >= 5 else None
        for member in ("", MEMBER_ID):
            join = jg.JoinGroupRequest(
                GROUP, 10_000, 10_000 if version else -1, member, instance, "consumer", protocols
            )
            frames.append(request("JoinGroup", version, jg.encode_request(join, version)))
    for version in range(6):
        assigned = [sg.SyncGroupRequestAssignment(MEMBER_ID, b"mine")]
        sync = sg.SyncGroupRequest(GROUP, 1, MEMBER_ID, assignments=assigned)
        if version >= 5:
            sync.protocol_type, sync.protocol_name = "consumer", "range"
        frames.append(request("SyncGroup", version, sg.encode_request(sync, version)))
    return frames


def long_frames(rng: Random) -> list[bytes]:
    """Return requests with strings of the maximum length, in every version.

    Ids and messages that the gateway makes of them are longer.
    """
    found: list[bytes] = []
    for facts in sorted(APIS.values()):
        module = import_module(f"tidegate_protocol.messages.{snake(facts.name)}")
        cls = getattr(module, f"{facts.name}Request")
        for version in range(facts.min_version, facts.max_version + 1):
            for client in (CLIENT, "c" * MAX_TEXT_BYTES):
                made = message(rng, cls, version, module.encode_request, texts=LONG_TEXTS)
                if made is not None and len(made) < MAX_BYTES // 2:
                    found.append(request(facts.name, version, made, client))
    return found


def transaction_frames(rng: Random) -> list[bytes]:
    """Return requests of transactional producers and of tools, one by one."""
    return [request(*each) for each in transaction_requests(rng)]


def transactional_produce_frames(rng: Random) -> list[bytes]:
    """Return Produce requests of transactions, whose producer ids are stand-ins."""
    every = [each for life in lives(rng) for each in life]
    return [request(*each) for each in every if each[0] == "Produce"]


def transaction_seeds(rng: Random) -> list[bytes]:
    """Return streams of one request, of one transaction, and of several with other requests."""
    frames = transaction_frames(rng)
    whole = [b"".join(request(*each) for each in life) for life in lives(rng)]
    others = produce_frames(rng) + fetch_frames(rng) + group_frames(rng)
    mixed = [
        b"".join([rng.choice(whole), rng.choice(others), *rng.choices(frames, k=2)])
        for _ in range(60)
    ]
    return frames + whole + mixed


def seeds(rng: Random) -> list[bytes]:
    """Return streams of one frame and of several frames."""
    frames = plain_frames(rng)
    served = produce_frames(rng) + fetch_frames(rng) + group_frames(rng) + long_frames(rng)
    served += transaction_frames(rng)
    several = [
        b"".join(rng.choices(frames, k=2) + rng.choices(served, k=rng.randint(1, 5)))
        for _ in range(200)
    ]
    return frames + served + several


def good_batch(value: bytes) -> bytes:
    """Return a batch of one record."""
    return build_batch([Record(0, NOW_MS, None, value)])


def split(stream: bytes) -> list[bytes]:
    """Return the frames of a stream, without their lengths; the last one may be incomplete."""
    frames: list[bytes] = []
    position = 0
    while position < len(stream):
        start = position + LENGTH_BYTES
        size = int.from_bytes(stream[position:start], "big")
        frames.append(stream[start : start + size])
        position = start + size
    return frames


def spoiled(rng: Random, stream: bytes, others: Sequence[bytes]) -> bytes:
    """Return a stream with a damaged frame, a changed order of frames, or damaged bytes."""
    chance = rng.random()
    if chance < 0.08:
        raw = bytearray(stream)
        mutate(rng, raw, others, 0)
        return bytes(raw[:MAX_BYTES])
    frames = split(stream) or [b""]
    if chance < 0.3:
        _reorder(rng, frames, others)
    if chance > 0.2 and frames:
        place = rng.randrange(len(frames))
        frames[place] = _damaged(rng, frames[place], others)
    return b"".join(map(frame, frames[:MAX_FRAMES]))[:MAX_BYTES]


def _reorder(rng: Random, frames: list[bytes], others: Sequence[bytes]) -> None:
    kind = rng.randrange(4)
    if kind == 0:
        frames[rng.randint(0, len(frames)) : 0] = split(rng.choice(others))
    elif kind == 1:
        frames.append(rng.choice(frames))
    elif kind == 2:
        del frames[rng.randrange(len(frames))]
    else:
        rng.shuffle(frames)


def _damaged(rng: Random, body: bytes, others: Sequence[bytes]) -> bytes:
    data = bytearray(body)
    head = 0 if rng.random() < 0.05 else _HEAD_BYTES
    if rng.random() < 0.05 and len(data) > 4:
        data[2:4] = rng.randrange(19).to_bytes(2, "big")  # another version
    mutate(rng, data, [rng.choice(others)[LENGTH_BYTES + _HEAD_BYTES :] or b"\0"], head)
    if data.startswith(b"\0\0") and rng.random() < 0.9:
        mend_batches(data)
    return bytes(data)


def for_producers(stream: bytes, producers: Mapping[int, tuple[int, int]]) -> bytes:
    """Replace a stream's stand-ins by producer ids and epochs; correct its batches.

    producers: id and epoch by the place in TX.
    """
    if not names_a_producer(stream):
        return stream
    for number, (producer_id, epoch) in producers.items():
        stream = with_producer(stream, number, producer_id, epoch)
    frames = split(stream)
    return b"".join(frame(_mended(each)) for each in frames)


def _mended(body: bytes) -> bytes:
    if not body.startswith(b"\0\0"):
        return body
    data = bytearray(body)
    mend_batches(data)
    return bytes(data)


def mend_batches(data: bytearray) -> None:
    """Correct the CRC of batches whose length is intact."""
    position = data.find(bytes(8))
    while 0 <= position <= len(data) - 61:
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if data[position + 16] == 2 and 61 <= size <= len(data) - position:
            batch = data[position : position + size]
            repair_batch(batch, 0, length=False)
            data[position : position + size] = batch
            position += size
        position = data.find(bytes(8), position + 1)
