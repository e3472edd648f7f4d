"""Forwards writes to mirrored topics to the source, over connections that clients share.

A gateway has LANES connections to each broker of a source.  A client connection always uses the
same lane.  `begin` sends a request after all earlier ones of this lane, and returns once its bytes
are sent.  A task waits for the answer.  A request whose outcome is unknown is never repeated.

While a topic has a fence (state/migration/switches.py), its batches wait in stage one of Produce.
`drained` returns when all batches under way have answers.  Right before a batch counts as begun,
the gateway checks that it may begin, without a checkpoint in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from enum import Enum
from itertools import count
from typing import Any, Final, Protocol

import trio

from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.wire.connection import BrokerConnection
from tidegate_coordination.client.wire.slots import Slot
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.changes import SWITCHES
from tidegate_coordination.state.migration.source_groups import GroupFence, is_named
from tidegate_coordination.state.topics import Topic

from ...network.byte_budget import ByteBudget
from ...network.forward_line import ForwardLine, Place
from ..links import Links
from .source_looks import SourceLooks
from .write_routes import (
    Obstacle,
    Route,
    is_beyond_switch,
    is_forwarded,
    is_kept_waiting,
    may_begin,
    may_write_as,
    route_to,
)

LANES: Final = 16
DIAL_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 1.0
FENCE_SECONDS: Final = 6.0
"""A fence that gets on is gone by then; later batches of the connection must not wait for it."""
_LANE: Final = "produce-{}"


class Forward(Protocol):
    """A request to one broker: the batches of one client's request whose partitions it leads.

    wait_seconds: how long the source may wait for its replicas.  transactional_id: None if the
    request has none.  passes: see TransactionForwards.admitted().  versions: the lowest and the
    highest version of Produce for the source.
    """

    line: ForwardLine
    places: Sequence[Place]
    size_bytes: int
    wait_seconds: float
    transactional_id: str | None
    passes: int
    versions: tuple[int, int]

    def request(self, version: int) -> Any:
        """Return the Produce request in a version."""
        ...

    def answered(self, response: Any, version: int) -> None:
        """Handle the source's answer."""
        ...

    def lose(self, reason: str) -> None:
        """Close the client's connection: the outcome is unknown."""
        ...


class Beginning(Enum):
    """The result of an attempt to begin a request."""

    BEGUN = "it was sent; its answer follows"
    LOOK_AGAIN = "the topics or the link have changed"
    NOT_SENT = "the source takes no request now"


class Forwards:
    """See the module's head.

    forwarded_bytes: the number of forwarded bytes.  waiting: the number of produce requests that
    wait in stage one.
    """

    def __init__(self, coordinator: Coordinator, links: Links, max_bytes: int) -> None:
        self.forwarded_bytes = 0
        self.waiting = 0
        self._coordinator = coordinator
        self._state = coordinator.state
        self._links = links
        self._room = ByteBudget(max_bytes)
        self._lanes = count()
        self._unanswered: Counter[bytes] = Counter()
        self._unanswered_ids: Counter[str] = Counter()
        self._ended = trio.Event()
        self._seen = -1
        self._switched = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._looks: SourceLooks | None = None
        coordinator.listen(self._on_change, SWITCHES)

    async def run(self) -> None:
        """Wait for answers; forever."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery, self._looks = nursery, SourceLooks(nursery)
                await trio.sleep_forever()
        finally:
            self._nursery = self._looks = None

    def _on_change(self, _: set[int]) -> None:
        version = self._state.switches.version
        if version != self._seen:
            self._seen = version
            self._switched.set()
            self._switched = trio.Event()

    # -- before a request begins -------------------------------------------------------------------

    def takes(self, topic: Topic) -> bool:
        """Return whether writes to a topic are forwarded, or wait for a fence."""
        return is_forwarded(self._state, topic) or is_kept_waiting(self._state, topic)

    def is_beyond_switch(self, place: Place, offset: int) -> bool:
        """Return whether an offset of the source is after the switch, so its record is not here."""
        return is_beyond_switch(self._state, *place, offset)

    def new_line(self) -> ForwardLine:
        """Return the line of a new client connection."""
        return ForwardLine(next(self._lanes) % LANES)

    async def unfenced(self, topic_ids: Collection[bytes], until: float) -> bool:
        """Wait until no topic has a fence; return False at `until` or after FENCE_SECONDS.

        After this, a topic may belong to this cluster.
        """
        with self._waits(min(until, trio.current_time() + FENCE_SECONDS)):
            while self.has_fence(topic_ids):
                await self._switched.wait()
        return not self.has_fence(topic_ids)

    def has_fence(self, topic_ids: Collection[bytes]) -> bool:
        """Return whether one of the topics has a fence, open or lifted."""
        fence_of = self._state.switches.fence_of
        return any(fence_of(each) is not None for each in topic_ids)

    async def route(self, topic: Topic, index: int, until: float) -> Route | Obstacle:
        """Return the broker to forward to; if it is not known, ask the source once."""
        found = route_to(self._state, self._links.running, topic, index)
        if found is not Obstacle.UNKNOWN:
            return found
        with self._waits(until):
            await self.look(topic).wait()
        return route_to(self._state, self._links.running, topic, index)

    def look(self, topic: Topic) -> trio.Event:
        """Ask the source for a topic's leaders; the event is set after the answer or a failure."""
        running = self._links.running.get(topic.link)
        if self._looks is not None and running is not None and running.forwards_to is not None:
            return self._looks.ask(running.forwards_to, topic.name)
        nothing = trio.Event()
        nothing.set()
        return nothing

    def _waits(self, until: float) -> _Waiting:
        return _Waiting(self, until)

    # -- requests ----------------------------------------------------------------------------------

    async def begin(self, route: Route, forward: Forward, until: float) -> Beginning:
        """Send a request to a broker, after all earlier ones of its line.

        until: the deadline, on trio's clock, for room, and for answers to earlier requests on other
          connections.
        """
        connection = await self._connection(route, forward, until)
        if connection is None:
            return Beginning.NOT_SENT
        if not await self._take_room(forward, connection, until):
            return Beginning.NOT_SENT
        # No checkpoint from here until the request counts as begun.
        beginning = self._may_begin(route, forward)
        if beginning is not Beginning.BEGUN:
            self._room.give(forward.size_bytes)
            return beginning
        self._count(forward, connection)
        try:
            return await self._send(connection, forward)
        except BaseException:
            self._lose(forward, connection, "a request could not be forwarded")
            raise

    async def _connection(
        self, route: Route, forward: Forward, until: float
    ) -> BrokerConnection | None:
        """Return the lane's connection; None if the broker cannot be reached in time.

        Other topics must continue.
        """
        lane = _LANE.format(forward.line.lane)
        with self._waits(min(until, trio.current_time() + DIAL_SECONDS)), suppress(ClassicError):
            return await route.cluster.connection(route.node_id, lane)
        return None

    async def _take_room(
        self, forward: Forward, connection: BrokerConnection, until: float
    ) -> bool:
        line, places = forward.line, forward.places
        with self._waits(until):
            await self._room.take(forward.size_bytes)
            try:
                while line.goes_elsewhere(places, connection):
                    await line.wait_for_change()
            except trio.Cancelled:
                self._room.give(forward.size_bytes)
                raise
            return True
        return False

    @property
    def _is_over(self) -> bool:
        """Return whether fences may have stopped waiting for this gateway."""
        coordinator = self._coordinator
        is_live = self._state.gateways.is_live(coordinator.incarnation)
        return coordinator.is_cut_off or not is_live

    def _may_begin(self, route: Route, forward: Forward) -> Beginning:
        if forward.line.is_lost or self._nursery is None or self._is_over:
            return Beginning.NOT_SENT
        running = self._links.running
        is_unchanged = all(
            may_begin(self._state, running, route, topic_id) for topic_id, _ in forward.places
        ) and may_write_as(self._state, route, forward.transactional_id, forward.passes)
        return Beginning.BEGUN if is_unchanged else Beginning.LOOK_AGAIN

    async def _send(self, connection: BrokerConnection, forward: Forward) -> Beginning:
        slot: Slot | None = None
        low, high = forward.versions
        # Other clients share the connection, so it must not end in the middle of a request.
        with trio.CancelScope(shield=True), suppress(ClassicError):
            slot = await connection.begin(
                "Produce",
                forward.request,
                min_version=low,
                max_version=high,
                wait_seconds=forward.wait_seconds,
            )
        if slot is None:
            self._end(forward)
            return Beginning.NOT_SENT
        self.forwarded_bytes += forward.size_bytes
        if self._nursery is None:
            self._lose(forward, connection, "the gateway's task for answers has ended")
        else:
            self._nursery.start_soon(self._finish, connection, slot, forward)
        return Beginning.BEGUN

    async def _finish(self, connection: BrokerConnection, slot: Slot, forward: Forward) -> None:
        try:
            response = await connection.answer_to(slot)
            if self._is_over:
                self._lose(forward, connection, "this gateway's lease has ended")
                return
            forward.answered(response, slot.version)
        except ClassicError as error:
            self._lose(forward, connection, str(error))
        except BaseException:
            self._lose(forward, connection, "the answer to a forwarded request was not taken")
            raise
        else:
            self._end(forward)

    # -- requests without an answer ----------------------------------------------------------------

    async def drained(self, topic_ids: Collection[bytes]) -> None:
        """Wait until all forwarded batches to these topics have answers.

        A batch whose outcome is unknown counts until its connection to the source is closed.
        """
        while any(each in self._unanswered for each in topic_ids):
            await self._ended.wait()

    async def ids_drained(self, fence: GroupFence) -> None:
        """Wait until all batches of a fence's transactional ids have answers.

        This also returns once the fence is removed.
        """
        fences = self._state.link_groups.fences
        while fence.number in fences and any(
            is_named(fence.ids, each) for each in self._unanswered_ids
        ):
            with trio.move_on_after(LOOK_SECONDS):
                await self._ended.wait()

    async def all_drained(self) -> None:
        """Wait until all forwarded batches have answers."""
        while self._unanswered:
            await self._ended.wait()

    def _count(self, forward: Forward, connection: BrokerConnection) -> None:
        self._unanswered.update(topic_id for topic_id, _ in forward.places)
        if forward.transactional_id is not None:
            self._unanswered_ids[forward.transactional_id] += 1
        forward.line.begin(forward.places, connection)

    def _lose(self, forward: Forward, connection: BrokerConnection, reason: str) -> None:
        connection.close()
        forward.lose(reason)
        self._end(forward)

    def _end(self, forward: Forward) -> None:
        self._room.give(forward.size_bytes)
        for topic_id, _ in forward.places:
            self._unanswered[topic_id] -= 1
            if not self._unanswered[topic_id]:
                del self._unanswered[topic_id]
        name = forward.transactional_id
        if name is not None:
            self._unanswered_ids[name] -= 1
            if not self._unanswered_ids[name]:
                del self._unanswered_ids[name]
        forward.line.end(forward.places)
        self._ended.set()
        self._ended = trio.Event()


class _Waiting:
    """Counts a waiting produce request in stage one.  until: the deadline, on trio's clock."""

    def __init__(self, forwards: Forwards, until: float) -> None:
        self._forwards = forwards
        self._scope = trio.CancelScope(deadline=until)

    def __enter__(self) -> None:
        self._forwards.waiting += 1
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        self._forwards.waiting -= 1
        return self._scope.__exit__(*error)
