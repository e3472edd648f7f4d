"""Plays a script on one broker, step by step, and reads the whole state after each step.

If an answer is retriable (Kafka loads a coordinator, or writes markers), the player repeats the
request, as clients do.  After each step it waits until no transaction is in a prepared state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import singledispatchmethod
from typing import Any, Final

import trio

from tidegate_protocol.error_codes import ErrorCode as E

from . import steps as st
from .clients import Clients
from .names import Names
from .observing import Observer
from .seen import Seen, codes, flat
from .wire import Caller, Request

PATIENCE_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.01
_WEARS_BY: Final = 5
"""The version of InitProducerId."""
_AT_ONCE: Final = 200
_AGAIN: Final = frozenset(
    {
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.CONCURRENT_TRANSACTIONS,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_LEADER_OR_FOLLOWER,
        E.LEADER_NOT_AVAILABLE,
    }
)


ONE_BUMP: Final = "InitProducerId over an open transaction"


class Stuck(Exception):
    """The broker did not reach a state that a script waits for.  The script cannot be compared."""


class Player:
    """A script on one broker.  now_ms: the time stamp of all records."""

    def __init__(
        self, broker: str, connection: Caller, script: st.Script, prefix: str, now_ms: int
    ) -> None:
        self.broker: Final = broker
        self.names: Final = Names()
        self.clients: Final = Clients(prefix, now_ms, self.names, shares_name=script.shares_name)
        self.observer: Final = Observer(connection, self.clients, self.names, script.fetch_version)
        self.was_concurrent = False
        self._connection: Final = connection
        self._sent: Final[dict[int, Request]] = {}
        self._script: Final = script
        self._index = 0

    async def prepare(self) -> None:
        """Create the topics of the script.

        Raises:
          Stuck: a topic did not exist in time.
        """
        for topic in range(st.TOPICS):
            await self._create(topic)
        if self._script.worn_to >= 0:
            await self._wear(self._script.worn_to)

    async def _wear(self, epoch: int) -> None:
        """Repeat InitProducerId until the first producer has this epoch."""
        request = self.clients.initialise(st.Initialise(_WEARS_BY, st.Who(0)))
        producer = self.clients.producers[0]
        while producer.epoch < epoch:
            count = min(_AT_ONCE, epoch - producer.epoch)
            answer = (await self._connection.call_all([request] * count))[-1]
            if answer.error_code != E.NONE:
                raise Stuck(f"{self.broker} gives no epoch after {producer.epoch}")
            producer.take(answer.producer_id, answer.producer_epoch)
        self.names.note_producer(producer.id)

    async def play(self, index: int, step: st.Step) -> Seen:
        """Take a step; return its answer.

        Raises:
          ConnectionLost: the broker closed the connection.
          Stuck: the broker did not reach the awaited state in time.
        """
        self._index = index
        self.was_concurrent = False
        answer = await self._take(step)
        await self.observer.settle()
        return answer

    async def finish(self) -> None:
        """Delete the topics, so that a broker does not get full."""
        for topic in range(st.TOPICS):
            await self._connection.call(self.clients.delete_topic(st.DeleteTopic(topic)))

    async def _ask(self, request: Request) -> Any:
        """Send a request of the step; repeat it after a retriable error."""
        self._sent[self._index] = request
        deadline = trio.current_time() + PATIENCE_SECONDS
        while True:
            answer = await self._connection.call(request)
            found = codes(flat("", answer, self.names))
            self.was_concurrent |= E.CONCURRENT_TRANSACTIONS in found
            if not found & _AGAIN or trio.current_time() > deadline:
                return answer
            await trio.sleep(_PAUSE_SECONDS)

    async def _seen(self, request: Request) -> Seen:
        return flat(request.api, await self._ask(request), self.names)

    # -- steps -----------------------------------------------------------------------------------

    @singledispatchmethod
    async def _take(self, step: Any) -> Seen:
        raise TypeError(f"no such step: {step}")

    @_take.register
    async def _(self, step: st.Initialise) -> Seen:
        request = self.clients.initialise(step)
        return self._initialised(request, await self._ask(request), step.who.producer)

    def _initialised(self, request: Request, answer: Any, number: int) -> Seen:
        if answer.error_code == E.NONE:
            producer = self.clients.producers[number]
            last = self.observer.epochs.get(answer.producer_id, answer.producer_epoch)
            if self.was_concurrent and answer.producer_epoch == last + 2:
                self.names.skip_epoch(answer.producer_id, answer.producer_epoch)
                self.names.note(ONE_BUMP)
            self.names.note_producer(answer.producer_id)
            if request.body.transactional_id == producer.name:
                producer.take(answer.producer_id, answer.producer_epoch)
        return flat(request.api, answer, self.names)

    @_take.register
    async def _(self, step: st.AddPartitions) -> Seen:
        return await self._seen(self.clients.add_partitions(step))

    @_take.register
    async def _(self, step: st.AddOffsets) -> Seen:
        return await self._seen(self.clients.add_offsets(step))

    @_take.register
    async def _(self, step: st.Write) -> Seen:
        producer = self.clients.producers[step.who.producer]
        sequences = [producer.sequence(each) for each in step.batches]
        request = self.clients.write(step, self._index)
        answer = await self._ask(request)
        places = {
            (self.clients.topic_number(row.name, row.topic_id), each.index)
            for row in answer.responses
            for each in row.partition_responses
            if each.error_code == E.NONE
        }
        for batch, sequence in zip(step.batches, sequences, strict=True):
            if batch.place in places:
                producer.wrote(batch, sequence)
        return flat(request.api, answer, self.names)

    @_take.register
    async def _(self, step: st.StageOffsets) -> Seen:
        return await self._seen(self.clients.stage(step))

    @_take.register
    async def _(self, step: st.CommitOffsets) -> Seen:
        return await self._seen(self.clients.commit(step))

    @_take.register
    async def _(self, step: st.DeleteOffsets) -> Seen:
        return await self._seen(self.clients.delete_offsets(step))

    @_take.register
    async def _(self, step: st.DeleteGroup) -> Seen:
        return await self._seen(self.clients.delete_group(step))

    @_take.register
    async def _(self, step: st.Join) -> Seen:
        group = self.clients.groups[step.group]
        request = self.clients.join(step)
        answer = await self._ask(request)
        if answer.error_code != E.NONE:
            return flat(request.api, answer, self.names)
        group.member_id, group.generation = answer.member_id, answer.generation_id
        group.instance = request.body.group_instance_id
        seen = flat(request.api, answer, self.names)
        return {**seen, **await self._seen(self.clients.sync(group))} if step.syncs else seen

    @_take.register
    async def _(self, step: st.Leave) -> Seen:
        return await self._seen(self.clients.leave(step))

    @_take.register
    async def _(self, step: st.End) -> Seen:
        request = self.clients.end(step)
        return self._ended(request, await self._ask(request), step.who.producer)

    def _ended(self, request: Request, answer: Any, number: int) -> Seen:
        if answer.error_code == E.NONE and answer.producer_id >= 0:
            self.names.note_producer(answer.producer_id)
            self.clients.producers[number].take(answer.producer_id, answer.producer_epoch)
        return flat(request.api, answer, self.names)

    @_take.register
    async def _(self, step: st.Mark) -> Seen:
        return await self._seen(self.clients.mark(step))

    @_take.register
    async def _(self, step: st.DeleteRecords) -> Seen:
        start, end = self.observer.extent(step.place)
        offset = -1
        if step.hundredths is not None:
            offset = start + (end - start) * step.hundredths // 100
        seen = await self._seen(self.clients.delete_records(step.place, offset))
        self.observer.note_start(step.place, seen)
        return seen

    @_take.register
    async def _(self, step: st.DeleteTopic) -> Seen:
        seen = await self._seen(self.clients.delete_topic(step))
        await self._until(lambda: self.observer.has_topic(step.topic), wanted=False)
        self.observer.forget_topic(step.topic)
        return seen

    @_take.register
    async def _(self, step: st.CreateTopic) -> Seen:
        return await self._create(step.topic)

    async def _create(self, topic: int) -> Seen:
        request = self.clients.create_topics([topic])
        answer = await self._ask(request)
        [row] = answer.topics
        if row.error_code == E.NONE:
            self.clients.topic_ids[topic] = row.topic_id
            self.names.note_topic(row.topic_id, self.clients.topic(topic))
            self.observer.forget_topic(topic)
            await self._until(lambda: self.observer.has_topic(topic), wanted=True)
        return {"CreateTopics.error_code": int(row.error_code)}

    @_take.register
    async def _(self, step: st.TimeOut) -> Seen:
        name = self.clients.producers[step.producer].name or ""
        await self._until(lambda: self.observer.is_ongoing(name), wanted=False)
        return {}

    @_take.register
    async def _(self, step: st.Repeat) -> Seen:
        request = self._sent.get(step.step)
        if request is None:
            return {}
        answer = await self._ask(request)
        first = self._script.cause(step.step)
        if isinstance(first, st.Initialise):
            return self._initialised(request, answer, first.who.producer)
        if isinstance(first, st.End):
            return self._ended(request, answer, first.who.producer)
        if isinstance(first, st.DeleteRecords):
            self.observer.note_start(first.place, flat(request.api, answer, self.names))
        if isinstance(first, st.ListAll):
            return self._listed(request, answer)
        return flat(request.api, answer, self.names)

    @_take.register
    async def _(self, step: st.ListAll) -> Seen:
        request = self.clients.list_all(step)
        return self._listed(request, await self._ask(request))

    def _listed(self, request: Request, answer: Any) -> Seen:
        """Return the comparable answer, without the transactional ids of other scripts."""
        prefix = self.clients.prefix
        answer.transaction_states = [
            each
            for each in answer.transaction_states
            if each.transactional_id.startswith(f"{prefix}-")
        ]
        return flat(request.api, answer, self.names)

    async def _until(self, ask: Callable[[], Awaitable[bool]], *, wanted: bool) -> None:
        deadline = trio.current_time() + PATIENCE_SECONDS
        while await ask() is not wanted:
            if trio.current_time() > deadline:
                raise Stuck(f"{self.broker} does not get there")
            await trio.sleep(_PAUSE_SECONDS)
