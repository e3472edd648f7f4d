"""Damage to a valid input.  Pure; all chance comes from the rng.

Every mutation takes (rng, data, others) and changes data in place.  It does not change positions
before `head`: there a target keeps the bytes that select the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from struct import pack

MAX_INPUT_BYTES = 1 << 16

# False values of lengths and counts: as int16, int32, int64 and as unsigned varints.
WORDS = (
    *(pack(">h", each) for each in (-1, -2, 0, 1, 2**15 - 1, -(2**15))),
    *(pack(">i", each) for each in (-1, -2, 0, 1, 2**20, 10**6, 10**6 + 1, 2**31 - 1, -(2**31))),
    *(pack(">q", each) for each in (-1, 0, 2**63 - 1, -(2**63))),
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80\x01",
    b"\xff\xff\x03",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\x80\x80\x80\x00",
    b"\x80" * 10,
    b"\xff" * 9 + b"\x01",
    b"\xff" * 11,
    b"\xc3\x28",  # not UTF-8
    b"\xed\xa0\x80",  # a lone surrogate
)

Mutation = Callable[[Random, bytearray, Sequence[bytes], int], None]


def position_in(rng: Random, data: bytearray, head: int) -> int:
    """Return a position after the head, or the end."""
    return head + int(rng.random() * (len(data) - head)) if len(data) > head else len(data)


def flip_bits(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    if len(data) > head:
        for _each in range(1 + int(rng.random() * 4)):
            data[position_in(rng, data, head)] ^= 1 << int(rng.random() * 8)


def set_byte(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    if len(data) > head:
        data[position_in(rng, data, head)] = int(rng.random() * 256)


def add_to_byte(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    """Change a length by a little."""
    if len(data) > head:
        position = position_in(rng, data, head)
        data[position] = (data[position] + int(rng.random() * 9) - 4) & 0xFF


def overwrite_word(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    word = rng.choice(WORDS)
    position = position_in(rng, data, head)
    data[position : position + len(word)] = word


def swap_byte_for_word(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    """Replace a byte, such as a short varint, by a word, and keep the bytes after it."""
    position = position_in(rng, data, head)
    data[position : position + 1] = rng.choice(WORDS)


def cut_end(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    del data[position_in(rng, data, head) :]


def cut_middle(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    start = position_in(rng, data, head)
    del data[start : start + 1 + int(rng.random() * 16)]


def insert_noise(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    position = position_in(rng, data, head)
    data[position:position] = rng.randbytes(1 + int(rng.random() * 8))


def repeat_section(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    """Duplicate elements or whole parts, now and then very often."""
    start = position_in(rng, data, head)
    end = start + 1 + int(rng.random() * 64)
    times = 1 if rng.random() < 0.9 else 1 + int(rng.random() * 200)
    data[end:end] = data[start:end] * times


def splice(rng: Random, data: bytearray, others: Sequence[bytes], head: int) -> None:
    other = rng.choice(others)
    data[position_in(rng, data, head) :] = other[int(rng.random() * len(other)) :]


def borrow_section(rng: Random, data: bytearray, others: Sequence[bytes], head: int) -> None:
    other = rng.choice(others)
    start = int(rng.random() * len(other))
    piece = other[start : start + 1 + int(rng.random() * 32)]
    position = position_in(rng, data, head)
    data[position : position + (len(piece) if rng.random() < 0.5 else 0)] = piece


def add_tags(rng: Random, data: bytearray, _: Sequence[bytes], head: int) -> None:
    """Fill an empty tagged section: with unknown, doubled, falling or too many tags."""
    position = data.find(0, position_in(rng, data, head))
    if position < 0:
        return
    count = rng.choice((1, 1, 2, 3, 127, 128, 129))
    section = bytearray((count & 0x7F, 1) if count > 127 else (count,))
    if count > 127:
        section[0] |= 0x80
    for number in range(count):
        body = rng.randbytes(int(rng.random() * 5))
        tag = rng.choice((0, 1, number & 0x7F, number & 0x7F))
        section += bytes((tag, len(body))) + body
    data[position : position + 1] = section


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    set_byte,
    add_to_byte,
    overwrite_word,
    overwrite_word,
    swap_byte_for_word,
    cut_end,
    cut_middle,
    insert_noise,
    repeat_section,
    splice,
    borrow_section,
    add_tags,
)


def mutate(rng: Random, data: bytearray, others: Sequence[bytes], head: int) -> None:
    """Damage data in one to four ways."""
    for _ in range(1 if rng.random() < 0.5 else 1 + int(rng.random() * 4)):
        MUTATIONS[int(rng.random() * len(MUTATIONS))](rng, data, others, head)
    del data[MAX_INPUT_BYTES:]


def sweep(data: bytes, head: int) -> list[bytes]:
    """Return data cut at every byte, and with every word at every place."""
    swept = [data[:end] for end in range(head, len(data))]
    for position in range(head, len(data) + 1):
        before = data[:position]
        for word in WORDS:
            swept.append(before + word + data[position + len(word) :])
            swept.append(before + word + data[position + 1 :])
    return swept
