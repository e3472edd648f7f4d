"""Many transactional producers in one thread, with prepared frames: a light load.

Each is a generator that sends a request and waits for the answer; the loop reads for all of them.
"""

from __future__ import annotations

import heapq
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final

from ..errors import BenchError
from .spec import Told, Transact
from .transact_frames import EndFrame, ProduceFrame, add_error_of, add_frame
from .wire import Wire

CONCURRENT: Final = 51
NOT_ENOUGH_REPLICAS: Final = 19  # Apache Kafka says so to Produce below version 12
AGAIN: Final = frozenset({CONCURRENT, NOT_ENOUGH_REPLICAS})
AGAIN_SECONDS: Final = 0.02
"""As the clients of Apache Kafka wait."""
PATIENCE_SECONDS: Final = 60.0
MAX_BYTES: Final = 1_500_000_000
"""Of a run.  Brokers delete nothing between runs, and batches of 1 MB would fill a disk of 80 GB:
then no PUT succeeds, and the gateway refuses batches (NOT_ENOUGH_REPLICAS).
"""
_RECEIVE_BYTES: Final = 65_536
_LENGTH_BYTES: Final = 4

Life = Generator[float | None, memoryview, None]
"""It yields None to wait for an answer, or the seconds after which it continues without one."""
_NOTHING: Final = memoryview(b"")


@dataclass(slots=True)
class _Counts:
    """The counts of all producers; ends_at: from then on no producer begins a transaction."""

    ends_at: float = 0.0
    payload_bytes: int = 0
    transactions: int = 0
    concurrent: int = 0
    latencies: list[float] = field(default_factory=list[float])


class _Producer:
    """One producer on a connection of its own."""

    def __init__(self, spec: Transact, number: int, counts: _Counts) -> None:
        self._spec: Final = spec
        self._counts: Final = counts
        self._first_partition: Final = number * spec.batches
        name = f"bench-{secrets.token_hex(6)}"
        self._wire: Final = Wire.connect(spec.bootstrap)
        self._wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._producer_id, self._epoch = self._wire.init_producer(name if spec.version else None)
        self._produce: Final = ProduceFrame(spec, name)
        self._end: Final = EndFrame(spec, name)
        self._partitions: Final = [self._partition(at) for at in range(spec.batches)]
        wanted = sorted(set(self._partitions))
        self._add: Final = add_frame(spec, name, self._producer_id, self._epoch, wanted)
        self._sequences: dict[int, int] = {}
        self._received = bytearray()
        self.life: Final = self._live()

    @property
    def socket(self) -> socket.socket:
        """Return its connection."""
        return self._wire.socket

    def close(self) -> None:
        """Close its connection."""
        self._wire.close()

    def receive(self) -> list[memoryview]:
        """Return the answers that have come completely.

        Raises:
          BenchError: the broker closed the connection.
        """
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise BenchError("the broker closed a connection")
        self._received += data
        found: list[memoryview] = []
        at = 0
        while len(self._received) - at >= _LENGTH_BYTES:
            length = int.from_bytes(self._received[at : at + _LENGTH_BYTES], "big")
            end = at + _LENGTH_BYTES + length
            if end > len(self._received):
                break
            found.append(memoryview(bytes(self._received[at + _LENGTH_BYTES : end])))
            at = end
        del self._received[:at]
        return found

    def _partition(self, batch: int) -> int:
        return (self._first_partition + batch) % self._spec.partitions

    def _live(self) -> Life:
        spec, counts = self._spec, self._counts
        while time.perf_counter() < counts.ends_at and counts.payload_bytes < MAX_BYTES:
            if spec.version == 1:
                yield from self._ask(self._add, add_error_of)
            yield from self._write()
            if spec.version:
                yield from self._commit()
            counts.transactions += 1
            counts.payload_bytes += spec.batches * self._produce.payload_bytes

    def _write(self) -> Life:
        spec, produce = self._spec, self._produce
        self._patch(0)
        yield from self._ask(produce.data, produce.error_of)
        in_flight = 0
        for batch in range(1, spec.batches):
            if in_flight == spec.in_flight:
                self._expect((yield None), produce.error_of)
                in_flight -= 1
            self._patch(batch)
            self.socket.sendall(produce.data)
            in_flight += 1
        for _ in range(in_flight):
            self._expect((yield None), produce.error_of)

    def _patch(self, batch: int) -> None:
        partition = self._partitions[batch]
        sequence = self._sequences.get(partition, 0)
        self._produce.patch(self._producer_id, self._epoch, partition, sequence)
        self._sequences[partition] = sequence + self._produce.record_count

    def _commit(self) -> Life:
        end = self._end
        end.patch(self._producer_id, self._epoch)
        begun = time.perf_counter()
        self.socket.sendall(end.data)
        answer = yield None
        self._counts.latencies.append(time.perf_counter() - begun)
        self._expect(answer, end.error_of)
        if self._spec.version > 1:
            self._producer_id, self._epoch = end.next_of(answer)
            self._sequences.clear()

    def _ask(
        self, data: bytes | bytearray, error_of: Callable[[memoryview], int]
    ) -> Generator[float | None, memoryview, None]:
        """Send a request, and repeat it after CONCURRENT_TRANSACTIONS or NOT_ENOUGH_REPLICAS."""
        while True:
            self.socket.sendall(data)
            error = error_of((yield None))
            if error not in AGAIN:
                break
            self._counts.concurrent += 1
            yield AGAIN_SECONDS
        if error:
            raise BenchError(f"a request of a transaction failed with error {error}")

    @staticmethod
    def _expect(answer: memoryview, error_of: Callable[[memoryview], int]) -> None:
        error = error_of(answer)
        if error:
            raise BenchError(f"a request of a transaction failed with error {error}")


def transact(spec: Transact, wait_for_go: Callable[[], None]) -> Told:
    """Connect, wait, write transactions.

    Raises:
      BenchError: a request failed, or the broker does not answer.
    """
    counts = _Counts()
    producers = [_Producer(spec, number, counts) for number in range(spec.producers)]
    try:
        wait_for_go()
        started = time.perf_counter()
        counts.ends_at = started + spec.max_seconds
        _run(producers)
        return {
            "payload_bytes": counts.payload_bytes,
            "seconds": time.perf_counter() - started,
            "latencies": counts.latencies,
            "transactions": counts.transactions,
            "concurrent": counts.concurrent,
        }
    finally:
        for each in producers:
            each.close()


def _run(producers: list[_Producer]) -> None:
    """Pass each producer its answers until all have ended."""
    left = len(producers)
    waiting: list[tuple[float, int]] = []  # the times at which paused producers continue
    with selectors.DefaultSelector() as selector:

        def go_on(number: int, answer: memoryview | None) -> int:
            """Return how many have ended."""
            life = producers[number].life
            try:
                pause = next(life) if answer is None else life.send(answer)
            except StopIteration:
                return 1
            if pause is not None:
                heapq.heappush(waiting, (time.perf_counter() + pause, number))
            return 0

        for number, each in enumerate(producers):
            selector.register(each.socket, selectors.EVENT_READ, number)
            left -= go_on(number, None)
        while left:
            found = selector.select(_timeout(waiting))
            if not found and not waiting:
                raise BenchError(f"no answer for {PATIENCE_SECONDS:g} s")
            for key, _ in found:
                number = int(key.data)
                for answer in producers[number].receive():
                    left -= go_on(number, answer)
            while waiting and waiting[0][0] <= time.perf_counter():
                left -= go_on(heapq.heappop(waiting)[1], _NOTHING)


def _timeout(waiting: list[tuple[float, int]]) -> float:
    if not waiting:
        return PATIENCE_SECONDS
    return max(0.0, waiting[0][0] - time.perf_counter())
