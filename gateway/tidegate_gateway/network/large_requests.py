"""Reads large requests and writes large answers in steps, so that other tasks run in between.

A few bytes make an element, and an element costs microseconds and hundreds of bytes.  So generators
read large requests and write large answers (see protocol/README.md), STEPS_A_TURN at a time.  The
gateway writes one large answer at a time, and reads one large request at a time in each of two
lanes.

The elements of the requests in work are bounded, for each request and for each lane.  The gateway
refuses a request with too many elements before it reads them.  At a lane's limit a request waits,
and holds only its bytes.  Requests of group members have a separate lane, since the heartbeats that
keep a member in its group wait behind them on the same connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any, Final, TypeVar, cast

import trio

from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.primitives import MAX_REQUEST_ELEMENTS

from .byte_budget import ByteBudget

Result = TypeVar("Result")

# The gateway reads larger bodies in turns.
LARGE_BODY_BYTES: Final = 16 << 10
STEPS_A_TURN: Final = 50
# The most elements in all arrays of a request; these take less than 64 MiB of memory
# (docs/performance.md).
MAX_ELEMENTS: Final = MAX_REQUEST_ELEMENTS
MAX_ELEMENTS_AT_ONCE: Final = 300_000
# The most elements at once in the lane of group members.  A Fetch uses this lane, too, since its
# elements are also released soon.
MAX_MEMBERS_ELEMENTS_AT_ONCE: Final = 100_000
# The most batches of one Produce request, which has one batch for each partition.
MAX_BATCHES: Final = 10_000
FREED_A_TURN: Final = 1_000
"""Rows of an answer."""
# How long a request may wait for other large requests.
PATIENCE_SECONDS: Final = 60.0


def in_turns(
    messages: ModuleType, name: str
) -> Callable[[Any, int], Generator[int, None, Any]] | None:
    """Return the function that decodes or encodes in turns; None if this never takes long."""
    found: Callable[[Any, int], Generator[int, None, Any]] | None
    found = getattr(messages, name + "_in_turns", None)
    return found


class _Lane:
    """Large requests that share a limit, and are read one at a time."""

    def __init__(self, max_elements: int) -> None:
        self.budget = ByteBudget(max_elements)
        self.reader = trio.Lock()


class Reading:
    """A request that the gateway reads and then answers; it holds elements until release()."""

    def __init__(self, lane: _Lane, max_elements: int) -> None:
        self.lane = lane
        self._max_elements = max_elements
        self.elements = 0

    async def count(self, elements: int) -> None:
        """Count elements before they are read; wait while the lane holds too many.

        Raises:
          RemoteProtocolError: the request has too many elements, or waited PATIENCE_SECONDS.
        """
        if self.elements + elements > self._max_elements:
            raise RemoteProtocolError(f"more than {self._max_elements} elements in one request")
        with _patience():
            await self.lane.budget.take(elements)
        self.elements += elements

    def release(self) -> None:
        """Give the elements back, when the request is answered, or waits without them."""
        self.lane.budget.give(self.elements)
        self.elements = 0


async def read_batches(work: Generator[int, None, Result]) -> Result:
    """Return the generator's result, a produce request; arenas limit the bytes of these requests.

    Raises:
      RemoteProtocolError: the request has more than MAX_BATCHES elements; see also the generator.
    """
    left = MAX_BATCHES
    while True:
        try:
            for _ in range(STEPS_A_TURN):
                left -= next(work)
                if left < 0:
                    raise RemoteProtocolError(f"more than {MAX_BATCHES} topics and partitions")
        except StopIteration as end:
            return cast(Result, end.value)
        await trio.lowlevel.checkpoint()


class LargeRequests:
    """The lanes of one gateway: one for members of groups, one for all other clients."""

    def __init__(self) -> None:
        self._members = _Lane(MAX_MEMBERS_ELEMENTS_AT_ONCE)
        self._others = _Lane(MAX_ELEMENTS_AT_ONCE)
        self._writer = trio.Lock()

    @property
    def elements(self) -> int:
        """The number of elements of all large requests that are being handled."""
        return self._members.budget.used_bytes + self._others.budget.used_bytes

    def reading(self, max_elements: int = MAX_ELEMENTS, *, is_of_members: bool = False) -> Reading:
        """Return the counter of a request's elements, which the caller must release.

        max_elements: smaller for requests whose elements cost more, or whose clients never need as
        many.
        """
        return Reading(self._members if is_of_members else self._others, max_elements)

    async def decoded(
        self, messages: ModuleType, body: memoryview, version: int, reading: Reading
    ) -> Any:
        """Decode a body, in turns if requests of the API can have many elements.

        Raises:
          RemoteProtocolError: see read().
        """
        work = in_turns(messages, "decode_request")
        if work is None:
            return messages.decode_request(body, version)
        return await self.read(work(body, version), reading)

    async def read(self, work: Generator[int, None, Result], reading: Reading) -> Result:
        """Return the generator's result.

        Raises:
          RemoteProtocolError: see Reading.count(), and the generator.
        """
        with _patience():
            await reading.lane.reader.acquire()
        try:
            while True:
                try:
                    for _ in range(STEPS_A_TURN):
                        if elements := next(work):
                            await reading.count(elements)
                except StopIteration as end:
                    return cast(Result, end.value)
                await trio.lowlevel.checkpoint()
        finally:
            reading.lane.reader.release()

    async def write(self, work: Generator[int, None, Result]) -> Result:
        """Return the generator's result: an encoded answer."""
        try:
            for _ in range(STEPS_A_TURN):
                next(work)
        except StopIteration as end:
            return cast(Result, end.value)
        async with self._writer:
            while True:
                try:
                    for _ in range(STEPS_A_TURN):
                        next(work)
                except StopIteration as end:
                    return cast(Result, end.value)
                await trio.lowlevel.checkpoint()


async def freed(response: Any, *, nested: bool = True) -> None:
    """Free the rows of an encoded answer in turns: to free a million at once takes 0.2 s.

    No other object may use the answer's lists.  nested: also free lists within rows, which no other
    object may use either.
    """
    for rows in _long_lists(response, nested=nested):
        while rows:
            del rows[-FREED_A_TURN:]
            await trio.lowlevel.checkpoint()


def _long_lists(message: Any, *, nested: bool) -> Iterator[list[Any]]:
    for each in fields(message):
        found = getattr(message, each.name)
        if not isinstance(found, list):
            continue
        rows: list[Any] = found  # pyright: ignore[reportUnknownVariableType]  # of any rows
        if len(rows) > FREED_A_TURN:
            yield rows
        elif nested:
            for row in filter(is_dataclass, rows):
                yield from _long_lists(row, nested=True)


@contextmanager
def _patience() -> Generator[None]:
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            yield
    except trio.TooSlowError as error:
        raise RemoteProtocolError("other large requests were not answered in time") from error
