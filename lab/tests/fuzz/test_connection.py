"""Real requests, damaged at random: the gateway answers or closes, without an internal error.

The seeds are fixed, so a failure repeats; it prints the sent bytes as hex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.requests.test_bad_requests import ROWS
from tests.worlds.cluster.neighbour import TOPIC, neighboured
from tests.worlds.wire_client import (
    Closed,
    WireClient,
    module_of,
    produce_request,
    records_batch,
    request_frame,
)
from tidegate_gateway.unserved import BY_KEY
from tidegate_protocol.apis import APIS
from tidegate_protocol.errors import LocalProtocolError
from tidegate_protocol.frames import frame

FRAMES_PER_SEED = 500
LENGTH_BYTES = 4
PATIENCE_SECONDS = 1.0
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def corpus() -> list[bytes]:
    """Return frames of all APIs in most of their versions."""
    batch = records_batch(b"one", b"two", codec=1)
    requests = [(row.name, row.request) for row in ROWS.values()]
    requests += [("Produce", produce_request([(TOPIC, 0, batch), (TOPIC, 1, batch)]))]
    # Produce has acks=0 by default, and so no answer.
    requests += [
        (each.name, getattr(module_of(each.name), f"{each.name}Request")())
        for each in APIS.values()
        if each.name != "Produce" and each.key not in BY_KEY
    ]
    frames: list[bytes] = []
    for name, request in requests:
        [facts] = [each for each in APIS.values() if each.name == name]
        for version in range(facts.min_version, facts.max_version + 1):
            try:
                frames.append(request_frame(name, version, request))
            except LocalProtocolError:
                continue  # the request sets a field that this version has not
    return frames


def flip_bits(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _each in range(rng.randint(1, 8)):
        changed[rng.randrange(LENGTH_BYTES, len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def set_bytes(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    start = rng.randrange(LENGTH_BYTES, len(data))
    for position in range(start, min(len(data), start + rng.randint(1, 4))):
        changed[position] = rng.choice(INTERESTING)
    return bytes(changed)


def cut(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return frame(data[LENGTH_BYTES : rng.randint(LENGTH_BYTES, len(data))])


def cut_and_keep_length(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: rng.randint(1, len(data))]


def change_length(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    claimed = rng.choice((len(data) - 5, len(data), len(data) + 100, 0, 1, 2**20, 2**30, 2**32 - 1))
    return claimed.to_bytes(4, "big") + data[LENGTH_BYTES:]


def splice(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others)
    head = data[LENGTH_BYTES : rng.randint(LENGTH_BYTES, len(data))]
    return frame(head + other[rng.randint(LENGTH_BYTES, len(other)) :])


def insert(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    position = rng.randint(LENGTH_BYTES, len(data))
    extra = rng.randbytes(rng.randint(1, 20))
    return frame(data[LENGTH_BYTES:position] + extra + data[position:])


def other_version(rng: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    changed[6:8] = rng.randint(0, 14).to_bytes(2, "big")
    return bytes(changed)


Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]
MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    set_bytes,
    cut,
    cut_and_keep_length,
    change_length,
    splice,
    insert,
    other_version,
)


@pytest.mark.parametrize("seed", range(8))
async def test_damaged_requests(seed: int, autojump_clock: MockClock) -> None:
    rng = Random(seed)
    frames = corpus()
    async with neighboured() as scene:
        for number in range(FRAMES_PER_SEED):
            data = rng.choice(MUTATIONS)(rng, rng.choice(frames), frames)
            await offer(scene.connect(), data)
            assert scene.errors == [], data.hex()
            if number % 50 == 0:
                await scene.neighbour_works()


async def offer(client: WireClient, data: bytes) -> None:
    """Send a stream; wait for an answer, for the gateway's close, or some time; then close."""
    with trio.move_on_after(PATIENCE_SECONDS):
        try:
            await client.send(data)
            await client.receive()
        except Closed:
            pass
    client.transport.close()


async def test_the_corpus_is_sound(autojump_clock: MockClock) -> None:
    apis: set[int] = set()
    async with neighboured() as scene:
        for each in corpus():
            client = scene.connect()
            await client.send(each)
            assert await client.receive()
            apis.add(int.from_bytes(each[4:6], "big"))
        assert scene.reasons == []
    assert apis == {each for each in APIS if each not in BY_KEY}
