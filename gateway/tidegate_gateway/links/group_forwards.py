"""Forwards requests of consumer groups to the source of a link, until the groups move here.

The source coordinates such a group: gateways pass on what its members send, in the version that
both sides speak, and what the source answers.  A request of unknown outcome is never repeated.

A fence (state/link_groups.py) lets no request begin, and ends those that wait at the source;
`drained` says when no commit lacks an answer.  A fence does not wait for a gateway whose lease has
ended, and such a gateway may not know that yet: after a commit it reads the log before it answers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar

import trio

from tidegate_coordination.classic.cluster import ClassicCluster
from tidegate_coordination.classic.connection import BrokerConnection, MakeRequest
from tidegate_coordination.classic.errors import ClassicError, Kind
from tidegate_coordination.classic.retries import codes_in
from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.state.link_groups import GroupFence
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import LocalProtocolError
from tidegate_protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

from .forwarded_members import ForwardedMembers
from .group_offsets import coordinator_of
from .links import RunningLink

FIND_SECONDS: Final = 10.0
LIST_SECONDS: Final = 3.0
EACH_SECONDS: Final = 20.0
AT_ONCE: Final = 8
LOOK_SECONDS: Final = 1.0
FENCE_SECONDS: Final = 6.0
"""A fence that gets on is gone by then."""
STATES_SINCE: Final = 4
TYPES_SINCE: Final = 5
CLASSIC: Final = "classic"
MAX_KNOWN: Final = 10_000
_MOVED_ON: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


T = TypeVar("T")


class NotForwarded(Exception):
    """The client gets this code; if the request was sent, its outcome is unknown."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class GroupRequest(NamedTuple):
    """A request to the coordinator of a group.

    make: returns it in a version.  max_version: the client's.  wait_seconds: how long the source
    may wait before it answers.  is_change: whether it changes offsets.  heeds_fence: heartbeats go
    on while a group moves, or the source would end sessions if it does not move.
    """

    group_id: str
    name: str
    make: MakeRequest
    max_version: int
    client_id: str
    wait_seconds: float = 0.0
    is_change: bool = False
    heeds_fence: bool = True


class GroupAnswer(NamedTuple):
    """The source's answer, and the version that it has."""

    response: Any
    version: int


class GroupForwards:
    """See the module's head.

    running: the links, by name.  members: of groups that were forwarded.  forwarded: requests that
    were.  open: those without an answer.
    """

    def __init__(self, coordinator: Coordinator, running: Mapping[str, RunningLink]) -> None:
        self.members = ForwardedMembers()
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
        coordinator.listen(self._on_change)

    def _on_change(self, _: set[int]) -> None:
        if self._state.link_groups.version != self._seen:
            self._seen = self._state.link_groups.version
            self._changed.set()
            self._changed = trio.Event()

    def takes(self, group_id: str) -> bool:
        """Return whether requests of a group are forwarded."""
        return bool(self._state.link_groups.link_of(group_id))

    async def call(self, request: GroupRequest) -> GroupAnswer:
        """Return the source's answer.

        Raises:
          NotForwarded: there is none.
        """
        running = self._running(request)
        try:
            node_id = await self._node_of(running, request.group_id)
            answer = await self._ask(running, node_id, request)
        except ClassicError as error:
            self._nodes.pop(request.group_id, None)
            raise NotForwarded(_code_of(error)) from error
        if not codes_in(request.name, answer.response).isdisjoint(_MOVED_ON):
            self._nodes.pop(request.group_id, None)
        return answer

    async def listed(self, request: ListGroupsRequest, max_version: int) -> list[ListedGroup]:
        """Return the forwarded groups that sources list; without those of a source that is away."""
        found: dict[str, ListedGroup] = {}

        def make(version: int) -> ListGroupsRequest:
            states = request.states_filter if version >= STATES_SINCE else []
            return ListGroupsRequest(states, request.types_filter if version >= TYPES_SINCE else [])

        async def ask(source: ClassicCluster, node_id: int) -> None:
            with suppress(ClassicError):
                answer: ListGroupsResponse = await source.call_broker(
                    node_id, "ListGroups", make, max_version=max_version
                )
                found.update({each.group_id: each for each in answer.groups})

        with trio.move_on_after(LIST_SECONDS):
            async with trio.open_nursery() as nursery:
                for running in list(self._links.values()):
                    if running.group_lines is not None:
                        source = running.group_lines.cluster
                        for node_id in list(source.metadata.brokers):
                            nursery.start_soon(ask, source, node_id)
        return [
            each for each in found.values() if self.takes(each.group_id) and _passes(each, request)
        ]

    async def ask_each(
        self, groups: Sequence[str], ask: Callable[[str], Awaitable[T]], refused: Callable[[str], T]
    ) -> dict[str, T]:
        """Return what `ask` returns for each group, and `refused` for those without an answer.

        It asks for a few at a time, and no longer than EACH_SECONDS: a source may be away.
        """
        found: dict[str, T] = {}
        left = iter(groups)

        async def work() -> None:
            for group_id in left:
                found[group_id] = await ask(group_id)
                await trio.lowlevel.checkpoint()  # a refusal needs no wait

        with trio.move_on_after(EACH_SECONDS):
            async with trio.open_nursery() as nursery:
                for _ in range(AT_ONCE):
                    nursery.start_soon(work)
        return {each: found[each] if each in found else refused(each) for each in groups}

    async def unfenced(self, group_id: str) -> None:
        """Wait until a group has no fence, or for FENCE_SECONDS.

        It may be this cluster's after that.
        """
        with trio.move_on_after(FENCE_SECONDS):
            while self._state.link_groups.fence_of(group_id) is not None:
                await self._changed.wait()

    def _running(self, request: GroupRequest) -> RunningLink:
        self._check(request)
        name = self._state.link_groups.link_of(request.group_id)
        running = self._links.get(name)
        is_ready = running is not None and running.group_lines is not None
        if not is_ready or name in self._state.switches.on_hold:
            raise NotForwarded(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert running is not None
        return running

    def _check(self, request: GroupRequest) -> None:
        """Raise NotForwarded if a request may not begin."""
        if self._is_over or not self.takes(request.group_id):
            raise NotForwarded(ErrorCode.NOT_COORDINATOR)
        fence = self._state.link_groups.fence_of(request.group_id)
        if fence is not None and request.heeds_fence:
            raise NotForwarded(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    @property
    def _is_over(self) -> bool:
        """Return whether a fence may not have waited for this gateway, as far as is known here.

        A gateway that saw no other one does not count as cut off, though one may have come.
        """
        coordinator, gateways = self._coordinator, self._state.gateways
        silent_since = coordinator.log_answered_at + gateways.lease_ms / 1000
        is_live = gateways.is_live(coordinator.incarnation)
        return coordinator.is_cut_off or not is_live or trio.current_time() >= silent_since

    async def _node_of(self, running: RunningLink, group_id: str) -> int:
        known = self._nodes.get(group_id)
        if known is not None:
            return known
        assert running.group_lines is not None
        source = running.group_lines.cluster
        with trio.move_on_after(FIND_SECONDS):
            found = await coordinator_of(source, group_id)
            if found not in source.metadata.brokers:
                await source.refresh([])
            return self._know(group_id, found)
        raise NotForwarded(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _know(self, group_id: str, node_id: int) -> int:
        if len(self._nodes) >= MAX_KNOWN:
            self._nodes.clear()
        self._nodes[group_id] = node_id
        return node_id

    async def _ask(self, running: RunningLink, node_id: int, request: GroupRequest) -> GroupAnswer:
        assert running.group_lines is not None
        waits = request.wait_seconds > 0
        async with running.group_lines.taken(node_id, waits=waits) as connection:
            # From here on without a pause, until the request counts.
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
        """Learn whether this incarnation still lives."""
        try:
            await self._coordinator.catch_up()
        except CoordinatorUnavailable as error:
            raise NotForwarded(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    @contextmanager
    def _counted(self, request: GroupRequest) -> Generator[None, None, None]:
        """Count a request that begins; a fence ends it, unless it changes offsets."""
        group_id, scope = request.group_id, trio.CancelScope()
        self.forwarded += 1
        self.open += 1
        if request.heeds_fence:
            self._note_begun(group_id, scope, request.is_change, 1)
        try:
            with scope:
                yield
        finally:
            self.open -= 1
            if request.heeds_fence:
                self._note_begun(group_id, scope, request.is_change, -1)
        if scope.cancelled_caught:
            raise NotForwarded(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _note_begun(
        self, group_id: str, scope: trio.CancelScope, is_change: bool, count: int
    ) -> None:
        if is_change:
            self._changing[group_id] += count
            if not self._changing[group_id]:
                del self._changing[group_id]
        elif count > 0:
            self._waiting[group_id].add(scope)
        else:
            self._waiting[group_id].discard(scope)
            if not self._waiting[group_id]:
                del self._waiting[group_id]
        self._ended.set()
        self._ended = trio.Event()

    async def drained(self, fence: GroupFence) -> None:
        """Wait until no commit of a fence's groups lacks an answer; end what waits at the source.

        Nothing begins meanwhile.  It ends, too, once the fence is gone.
        """
        groups = fence.groups
        for group_id in groups:
            for scope in list(self._waiting.get(group_id, ())):
                scope.cancel()
        while any(each in self._changing or each in self._waiting for each in groups):
            if fence.number not in self._state.link_groups.fences:
                return
            with trio.move_on_after(LOOK_SECONDS):
                await self._ended.wait()


def _passes(group: ListedGroup, request: ListGroupsRequest) -> bool:
    """Return whether a group passes the filters: older sources do not filter by themselves.

    They do not say a group's state either, and have classic groups only.
    """
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    is_type = not types or (group.group_type or CLASSIC).lower() in types
    return is_type and (not states or group.group_state.lower() in states)


async def _answer(connection: BrokerConnection, request: GroupRequest) -> GroupAnswer:
    try:
        slot = await connection.begin(
            request.name,
            request.make,
            max_version=request.max_version,
            wait_seconds=request.wait_seconds,
            client_id=request.client_id,
        )
    except LocalProtocolError as error:  # the source's version cannot say what the client asks for
        raise NotForwarded(ErrorCode.UNSUPPORTED_VERSION) from error
    return GroupAnswer(await connection.answer_to(slot), slot.version)


def _code_of(error: ClassicError) -> ErrorCode:
    """Return what a client gets for an error of the source or of the way to it."""
    if error.kind is Kind.NOT_ALLOWED:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if error.kind is Kind.UNSUPPORTED:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
