"""Does time grow faster than the input?  Slow inputs run again, four times as long.

The bytes of known inputs are repeated up to each size.  The least CPU time of three runs counts, so
that a busy machine slows no input.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

from .engine import Target

SIZES = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
WORTH_SECONDS = 0.02
MAX_FACTOR = 10.0
"""Growth of time for four times the bytes; 16 would be quadratic."""


class Growth(NamedTuple):
    """seconds[i]: the time of an input of SIZES[i] bytes, made of data."""

    data: bytes
    seconds: list[float]

    @property
    def is_faster_than_size(self) -> bool:
        """Return whether time grew too fast at sizes that take measurable time."""
        pairs = zip(self.seconds, self.seconds[1:], strict=False)
        return any(after > WORTH_SECONDS and after > MAX_FACTOR * before for before, after in pairs)


def worst_growth(
    target: Target, inputs: Sequence[bytes], *, seed: int, tries: int
) -> Iterable[Growth]:
    """Yield the growths that are too fast."""
    rng = Random(seed)
    for _ in range(tries):
        found = growth(target, rng, rng.choice(inputs))
        if found.is_faster_than_size:
            yield found


def growth(target: Target, rng: Random, data: bytes) -> Growth:
    """Repeat a part of an input, its head and tail kept, until it is as long as each size."""
    head = target.head_bytes
    start = rng.randint(head, len(data))
    end = rng.randint(start, min(len(data), start + 64))
    part = data[start:end] or b"\0"
    state = rng.getstate()
    seconds: list[float] = []
    for size in SIZES:
        rng.setstate(state)
        longer = bytearray(data[:start] + part * (size // len(part)) + data[end:])
        target.repair(rng, longer)
        seconds.append(_least_seconds(target, bytes(longer)))
    return Growth(data, seconds)


def _least_seconds(target: Target, data: bytes) -> float:
    least = float("inf")
    for _ in range(3):
        started = time.thread_time()
        with suppress(Exception):  # the campaign reports exceptions
            target.run(data)
        least = min(least, time.thread_time() - started)
        if least < WORTH_SECONDS / 10:
            break
    return least
