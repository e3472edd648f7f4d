"""Forwards requests to the coordinators of a link's source, until their keys move here.

A key is a group id or a transactional id.  The source coordinates it: gateways forward requests of
clients, in a version that both sides support, and return the source's answers.  A request whose
outcome is unknown is never repeated.

While a fence (state/migration/source_groups.py) exists, only requests that may pass it begin.  The
fence also ends requests that wait at the source.  `drained` returns when every change has its
answer.  A fence does not wait for a gateway whose lease has expired, and such a gateway may not
know this yet.  So after a change a gateway reads the log before it answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError, Kind
from tidegate_coordination.client.groups.group_offsets import coordinator_of
from tidegate_coordination.client.retries import codes_in
from tidegate_coordination.client.wire.connection import BrokerConnection, MakeRequest
from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.state.changes import LINK_GROUPS
from tidegate_coordination.state.migration.source_groups import GroupFence
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import LocalProtocolError

from ..links import RunningLink

FIND_SECONDS: Final = 10.0
EACH_SECONDS: Final = 20.0
LIST_SECONDS: Final = 3.0
AT_ONCE: Final = 8
LOOK_SECONDS: Final = 1.0
FENCE_SECONDS: Final = 6.0
"""A fence that gets on is gone by then."""
MAX_KNOWN: Final = 10_000
NO_FENCE: Final = 0
ANY_FENCE: Final = -1
"""Heartbeats continue while a group moves, or the source would end sessions if it does not move."""
_MOVED_ON: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


T = TypeVar("T")


class NotForwarded(Exception):
    """The client gets this error code.  If the request was sent, its outcome is unknown."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class SourceRequest(NamedTuple):
    """A request to the coordinator of a key.

    make: returns the request in a version.  max_version: the client's version.  wait_seconds: how
    long the source may wait before it answers.  is_change: whether the request changes the source's
    state.  passes: the number of the fence that the request may pass, NO_FENCE or ANY_FENCE.
    min_version: the lowest version in which the request has this meaning.
    """

    key: str
    name: str
    make: MakeRequest
    max_version: int
    client_id: str
    wait_seconds: float = 0.0
    is_change: bool = False
    passes: int = NO_FENCE
    min_version: int = 0


class SourceAnswer(NamedTuple):
    """The source's answer, and the version of its format."""

    response: Any
    version: int


class SourceForwards(ABC):
    """See the module's head.

    running: the links, by name.  forwarded: the number of forwarded requests.  open: how many of
    these have no answer yet.
    """

    key_type: ClassVar[int]
    refused: ClassVar[ErrorCode]

    def __init__(self, coordinator: Coordinator, running: Mapping[str, RunningLink]) -> None:
        self.forwarded = 0
        self.open = 0
        self._coordinator = coordinator
        self._state = coordinator.state
        self._links = running
        self._nodes: dict[str, int] = {}
        self._changing: Counter[str] = Counter()
        self._waiting: defaultdict[str, set[trio.CancelScope]] = defaultdict(set)
        self._ended = trio.Event()
        self._seen = -1
        self._changed = trio.Event()
        coordinator.listen(self._on_change, LINK_GROUPS)

    def _on_change(self, _: set[int]) -> None:
        if self._state.link_groups.version != self._seen:
            self._seen = self._state.link_groups.version
            self._changed.set()
            self._changed = trio.Event()

    @abstractmethod
    def link_of(self, key: str, /) -> str:
        """Return the link to whose source a key's requests go; "" for a key of this cluster."""

    @abstractmethod
    def fence_of(self, key: str, /) -> GroupFence | None:
        """Return the fence that holds a key."""

    @abstractmethod
    def _is_in(self, fence: GroupFence, key: str, /) -> bool:
        """Return whether a fence holds a key."""

    def takes(self, key: str) -> bool:
        """Return whether requests of a key are forwarded."""
        return bool(self.link_of(key))

    async def call(self, request: SourceRequest) -> SourceAnswer:
        """Return the source's answer.

        Raises:
          NotForwarded: the source gave no answer.
        """
        running = self._running(request)
        try:
            node_id = await self._node_of(running, request.key)
            answer = await self._ask(running, node_id, request)
        except ClassicError as error:
            self._nodes.pop(request.key, None)
            raise NotForwarded(self._code_of(error)) from error
        if not codes_in(request.name, answer.response).isdisjoint(_MOVED_ON):
            self._nodes.pop(request.key, None)
        return answer

    async def ask_each(
        self, keys: Sequence[str], ask: Callable[[str], Awaitable[T]], refused: Callable[[str], T]
    ) -> dict[str, T]:
        """Return the result of `ask` for each key, or of `refused` without an answer.

        A few calls run at a time, and no longer than EACH_SECONDS, since a source may be down.
        """
        found: dict[str, T] = {}
        left = iter(keys)

        async def work() -> None:
            for key in left:
                found[key] = await ask(key)
                await trio.lowlevel.checkpoint()  # a refusal needs no wait

        with trio.move_on_after(EACH_SECONDS):
            async with trio.open_nursery() as nursery:
                for _ in range(AT_ONCE):
                    nursery.start_soon(work)
        return {each: found[each] if each in found else refused(each) for each in keys}

    async def ask_all_brokers(self, ask: Callable[[ClassicCluster, int], Awaitable[None]]) -> None:
        """Call `ask` for each broker of each source; ignore brokers that are down or slow."""

        async def attempt(source: ClassicCluster, node_id: int) -> None:
            with suppress(ClassicError):
                await ask(source, node_id)

        with trio.move_on_after(LIST_SECONDS):
            async with trio.open_nursery() as nursery:
                for running in list(self._links.values()):
                    if running.group_lines is not None:
                        source = running.group_lines.cluster
                        for node_id in list(source.metadata.brokers):
                            nursery.start_soon(attempt, source, node_id)

    async def unfenced(self, key: str) -> None:
        """Wait until a key has no fence, or for FENCE_SECONDS.

        After this, the key may belong to this cluster.
        """
        with trio.move_on_after(FENCE_SECONDS):
            while self.fence_of(key) is not None:
                await self._changed.wait()

    def _running(self, request: SourceRequest) -> RunningLink:
        self._check(request)
        name = self.link_of(request.key)
        running = self._links.get(name)
        is_ready = running is not None and running.group_lines is not None
        if not is_ready or name in self._state.switches.on_hold:
            raise NotForwarded(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert running is not None
        return running

    def _check(self, request: SourceRequest) -> None:
        """Raise NotForwarded if a request may not begin."""
        if self._is_over or not self.takes(request.key):
            raise NotForwarded(ErrorCode.NOT_COORDINATOR)
        self._check_fence(request.key, request.passes)

    def _check_fence(self, key: str, passes: int) -> None:
        fence = self.fence_of(key)
        if fence is not None and passes not in (ANY_FENCE, fence.number):
            raise NotForwarded(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    @contextmanager
    def counted(self, key: str, passes: int) -> Generator[None, None, None]:
        """Count a change of a key that is sent by another path, so that fences wait for it.

        Raises:
          NotForwarded: the key has a fence.
        """
        self._check_fence(key, passes)
        self._count(key, 1)
        try:
            yield
        finally:
            self._count(key, -1)

    @property
    def _is_over(self) -> bool:
        """Return whether fences may have stopped waiting for this gateway, as far as it knows.

        The check of the lease time is needed, too: is_cut_off is false at a gateway that knows no
        other gateway, but one may have joined.
        """
        coordinator, gateways = self._coordinator, self._state.gateways
        silent_since = coordinator.log_answered_at + gateways.lease_ms / 1000
        is_live = gateways.is_live(coordinator.incarnation)
        return coordinator.is_cut_off or not is_live or trio.current_time() >= silent_since

    async def _node_of(self, running: RunningLink, key: str) -> int:
        known = self._nodes.get(key)
        if known is not None:
            return known
        assert running.group_lines is not None
        source = running.group_lines.cluster
        with trio.move_on_after(FIND_SECONDS):
            found = await coordinator_of(source, key, self.key_type)
            if found not in source.metadata.brokers:
                await source.refresh([])
            return self._know(key, found)
        raise NotForwarded(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _know(self, key: str, node_id: int) -> int:
        if len(self._nodes) >= MAX_KNOWN:
            self._nodes.clear()
        self._nodes[key] = node_id
        return node_id

    async def _ask(
        self, running: RunningLink, node_id: int, request: SourceRequest
    ) -> SourceAnswer:
        assert running.group_lines is not None
        waits = request.wait_seconds > 0
        async with running.group_lines.taken(node_id, waits=waits) as connection:
            # No checkpoint from here until the request is counted.
            self._check(request)
            if self._links.get(running.link.name) is not running:
                raise NotForwarded(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            with self._counted(request):
                answer = await _answer(connection, request)
            if request.is_change:
                await self._read_log()
            if self._is_over:
                raise NotForwarded(ErrorCode.NOT_COORDINATOR)
        return answer

    async def _read_log(self) -> None:
        """Read the log to its end, to learn whether this incarnation is still live."""
        try:
            await self._coordinator.catch_up()
        except CoordinatorUnavailable as error:
            raise NotForwarded(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    @contextmanager
    def _counted(self, request: SourceRequest) -> Generator[None, None, None]:
        """Count a request that begins.  A fence cancels it, unless it is a change."""
        key, scope = request.key, trio.CancelScope()
        self.forwarded += 1
        self.open += 1
        is_counted = request.passes != ANY_FENCE
        if is_counted:
            self._note_begun(key, scope, request.is_change, 1)
        try:
            with scope:
                yield
        finally:
            self.open -= 1
            if is_counted:
                self._note_begun(key, scope, request.is_change, -1)
        if scope.cancelled_caught:
            raise NotForwarded(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _note_begun(self, key: str, scope: trio.CancelScope, is_change: bool, count: int) -> None:
        if is_change:
            self._count(key, count)
        elif count > 0:
            self._waiting[key].add(scope)
        else:
            self._waiting[key].discard(scope)
            if not self._waiting[key]:
                del self._waiting[key]
        self._told_end()

    def _count(self, key: str, count: int) -> None:
        self._changing[key] += count
        if not self._changing[key]:
            del self._changing[key]
        self._told_end()

    def _told_end(self) -> None:
        self._ended.set()
        self._ended = trio.Event()

    async def drained(self, fence: GroupFence) -> None:
        """Wait until all changes of a fence's keys have answers; cancel their waiting requests.

        No request begins meanwhile.  This also returns once the fence is removed.
        """
        for key, scopes in list(self._waiting.items()):
            if self._is_in(fence, key):
                for scope in list(scopes):
                    scope.cancel()
        while any(self._is_in(fence, each) for each in (*self._changing, *self._waiting)):
            if fence.number not in self._state.link_groups.fences:
                return
            with trio.move_on_after(LOOK_SECONDS):
                await self._ended.wait()

    def _code_of(self, error: ClassicError) -> ErrorCode:
        """Return the error code that a client gets if the source refuses, fails or is down."""
        if error.kind is Kind.NOT_ALLOWED:
            return self.refused
        if error.kind is Kind.UNSUPPORTED:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.COORDINATOR_NOT_AVAILABLE


async def _answer(connection: BrokerConnection, request: SourceRequest) -> SourceAnswer:
    try:
        slot = await connection.begin(
            request.name,
            request.make,
            min_version=request.min_version,
            max_version=request.max_version,
            wait_seconds=request.wait_seconds,
            client_id=request.client_id,
        )
    # the source's version has no field for a value of the client's request
    except LocalProtocolError as error:
        raise NotForwarded(ErrorCode.UNSUPPORTED_VERSION) from error
    return SourceAnswer(await connection.answer_to(slot), slot.version)
