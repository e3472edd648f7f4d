"""Producers with allowed but rare behaviour.

Twin sends each batch to two gateways at once, as a network that repeats packets might.  Zombie
raises the epoch of its producer id, and then writes once more with the old epoch.  Wrapper begins
near the end of the sequence numbers, as a producer whose state expired after 2^31 records.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from tidegate_coordination.events.cluster import ProducerBatch
from tidegate_protocol.error_codes import ErrorCode

from .client import Client, Disconnected
from .producers import DONE, RETRIABLE, SEQUENCE_LIMIT, Batch, Producer
from .workload import Key, Workload

_FORGOTTEN_ID = 10**12
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})


class Twin(Producer):
    """Sends one batch at a time, each on two connections, until one of them is acknowledged."""

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(workload, name)
        self._clients = (self.client, Client(workload.world, f"{name} again"))
        self.producer = (-1, -1)
        self.sequences: dict[int, int] = {}

    async def run(self) -> None:
        """Send until no operation is left."""
        await self.begin()
        while self.workload.take():
            key = self.rng.choice(self.workload.keys)
            await self.deliver(self.make(key, self.producer, self.sequences))
            await self.client.pause(2.0)
        for each in self._clients:
            each.close()

    async def begin(self) -> None:
        """Get a producer id."""
        self.producer = await self.introduce()

    async def deliver(self, batch: Batch) -> None:
        """Send a batch until its outcome is known."""
        answers: list[tuple[ErrorCode, int]] = []
        while not any(code not in RETRIABLE for code, _ in answers):
            if self.is_too_old(batch):
                break
            answers = []
            async with trio.open_nursery() as nursery:
                for client in self._clients:
                    nursery.start_soon(self._attempt, client, batch, answers.append)
            if not answers:
                await self.client.pause(1.0)
        done = [offset for code, offset in answers if code in DONE]
        errors = [code for code, _ in answers if code not in DONE and code not in RETRIABLE]
        if done:
            self.history.ok(batch.invoke, offset=max(done))
        else:
            self.history.info(batch.invoke, **({"error": errors[0].name} if errors else {}))
            self.producer, self.sequences = await self.introduce(), {}

    async def _attempt(
        self, client: Client, batch: Batch, answered: Callable[[tuple[ErrorCode, int]], None]
    ) -> None:
        await client.pause(0.2)
        try:
            sent = await self.submit(await client.connection(), [batch], -1)
            response = await sent.reply.wait(20.0)
        except Disconnected:
            client.close()
            return
        for _, code, offset in self.results(sent, response):
            answered((code, offset))
        if client.rng.random() < 0.5:
            client.close()


class Zombie(Twin):
    """A producer that writes once more with an old epoch."""

    async def run(self) -> None:
        """Send until no operation is left."""
        self.producer = await self.introduce()
        while self.workload.take():
            key = self.rng.choice(self.workload.keys)
            old, stale = self.producer, dict(self.sequences)
            await self.deliver(self.make(key, self.producer, self.sequences))
            self._raise(old)
            await self.deliver(self.make(key, self.producer, self.sequences))
            if self.producer[0] == old[0]:
                await self._rise_again(self.make(key, old, stale))
            await self.client.pause(3.0)
        self.client.close()
        self._clients[1].close()

    def _raise(self, old: tuple[int, int]) -> None:
        if self.producer == old:
            self.producer, self.sequences = (old[0], old[1] + 1), {}

    async def _rise_again(self, batch: Batch) -> None:
        """Write a batch with the old epoch, which follows its last sequence or repeats it."""
        answers: list[tuple[ErrorCode, int]] = []
        await self._attempt(self.client, batch, answers.append)
        code, offset = answers[0] if answers else (ErrorCode.REQUEST_TIMED_OUT, -1)
        if code == ErrorCode.NONE:
            self.history.ok(batch.invoke, offset=offset)
        elif code in _FENCED:
            self.history.fail(batch.invoke, error=code.name)
        else:
            self.history.info(batch.invoke, error=code.name)


class Wrapper(Twin):
    """See the module's head.  No gateway has assigned its id, so none knows its last sequence."""

    async def begin(self) -> None:
        """Begin shortly before the sequence number wraps, on every key."""
        self.producer = (_FORGOTTEN_ID, 0)
        for key in self.workload.keys:
            sequence = SEQUENCE_LIMIT - self.rng.randint(1, 6)
            self.sequences[key.number] = sequence
            self._tell_the_watch(key, sequence)
        await trio.lowlevel.checkpoint()

    def _tell_the_watch(self, key: Key, sequence: int) -> None:
        """Record the sequence in the watch, which expects every producer to begin at zero."""
        watch = self.workload.world.watch
        number = watch.state.topics.by_id[key.topic_id].partition_numbers[key.partition]
        last = ProducerBatch(number, _FORGOTTEN_ID, 0, sequence - 1, sequence - 1, -1)
        watch.sequences.had_written(last)
