"""Forwards requests of a group or transactional id to the source of a link until it moves here.

The group or id is called the key.  Keys of this cluster are served by the handler of the API.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any, ClassVar, Final, Generic, TypeVar

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_protocol.apis import APIS
from tidegate_protocol.error_codes import ErrorCode

from ..migration.forward.coordinators import (
    NO_FENCE,
    NotForwarded,
    SourceAnswer,
    SourceForwards,
    SourceRequest,
)
from ..network.call import Call, Handler

LOWEST: Final = 0
"""The lowest version of an API."""

ForwardsT = TypeVar("ForwardsT", bound=SourceForwards)


class Forwarded(Generic[ForwardsT]):
    """See the module's head.  local: the handler for keys of this cluster."""

    api_key: ClassVar[int]
    messages: ClassVar[ModuleType]
    is_change: ClassVar[bool] = True
    passes: ClassVar[int] = NO_FENCE
    # From this version on, requests have another meaning, so the source must support it, too.
    splits_at: ClassVar[int] = LOWEST

    def __init__(self, local: Handler, forwards: ForwardsT, coordinator: Coordinator) -> None:
        self._local = local
        self._forwards = forwards
        self._coordinator = coordinator
        self._state = coordinator.state

    async def handle(self, call: Call, request: Any) -> Any:
        """Return the answer of the source, or of this cluster."""
        key = self._key(request)
        if key is None or not self._forwards.takes(key):
            return await self._local.handle(call, request)
        passes = await self._enter(request, key)
        if not self._forwards.takes(key):
            return await self._local.handle(call, request)
        if self._misplaced(call, request, key) is not None:
            # This replica may not yet know a new topic, or that the key has moved.
            try:
                await self._coordinator.catch_up()
            except CoordinatorUnavailable:
                return self._refused(call, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if not self._forwards.takes(key):
                return await self._local.handle(call, request)
            refusal = self._misplaced(call, request, key)
            if refusal is not None:
                return refusal
        return await self._sent(call, request, key, passes)

    async def _sent(self, call: Call, request: Any, key: str, passes: int) -> Any:
        forwards, place = self._way(request, key)
        try:
            with self._counted(key, passes):
                answer = await forwards.call(self._asked(call, request, place, passes))
            await self._outlast(key)
        except NotForwarded as refused:
            return self._refused(call, request, refused.code)
        response = self._response(request, answer)
        if not self._is_true(request, response, key):
            return self._refused(call, request, ErrorCode.NOT_COORDINATOR)
        self._note(request, response)
        return response

    def _asked(self, call: Call, request: Any, key: str, passes: int) -> SourceRequest:
        low, high = LOWEST, call.version
        if self.splits_at:
            is_later = call.version >= self.splits_at
            low, high = (self.splits_at, high) if is_later else (low, min(high, self.splits_at - 1))
        return SourceRequest(
            key,
            APIS[self.api_key].name,
            partial(self._request, request),
            high,
            call.client_id,
            self._wait_seconds(request),
            self.is_change,
            passes,
            low,
        )

    def _refused(self, call: Call, request: Any, code: ErrorCode, /) -> Any:
        return self.messages.refused(request, call.version, code)

    # -- what an API does in its own way -----------------------------------------------------------

    def _key(self, request: Any) -> str | None:
        """Return the key of a request; None if it has none."""
        key: str = request.group_id
        return key

    async def _enter(self, _request: Any, _key: str, /) -> int:
        """Wait for a fence; return the fence that the request may pass, see SourceRequest."""
        return self.passes

    def _misplaced(self, _call: Call, _request: Any, _key: str, /) -> Any:
        """Return the refusal of a request about topics that are not at the source, or None."""
        return None

    def _way(self, _request: Any, key: str, /) -> tuple[SourceForwards, str]:
        """Return the forwarder of the request, and the key by which it finds the coordinator."""
        return self._forwards, key

    def _counted(self, _key: str, _passes: int, /) -> AbstractContextManager[None]:
        """Count the request for its key, if the forwarder counts it for another key."""
        return nullcontext()

    async def _outlast(self, _key: str, /) -> None:
        """Wait before the client gets the answer."""
        return

    def _request(self, request: Any, _version: int, /) -> Any:
        """Return the request in a version of the source."""
        return request

    def _response(self, _request: Any, answer: SourceAnswer, /) -> Any:
        """Return the answer in the client's version."""
        return answer.response

    def _wait_seconds(self, _request: Any, /) -> float:
        """Return how long the source may wait before it answers."""
        return 0.0

    def _is_true(self, _request: Any, _response: Any, _key: str, /) -> bool:
        """Return whether the source's answer is still valid."""
        return True

    def _note(self, _request: Any, _response: Any, /) -> None:
        """Record the source's answer."""
        return
