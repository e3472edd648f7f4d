"""Runs a handler under its API's guard."""

from __future__ import annotations

from typing import Any

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator

from ..network.call import Call, Handler, Rights
from .authority import Authority
from .guard import Ask, Caller, Guarding
from .needs import NEEDS
from .permit import NotedRights, proposes, proposing_by


class Guards:
    """The guards of one gateway; `authority` decides.  creates_topics: see Caller."""

    def __init__(
        self, authority: Authority, coordinator: Coordinator, *, creates_topics: bool
    ) -> None:
        self.authority = authority
        self._creates_topics = creates_topics
        self._coordinator = coordinator

    async def handle(self, handler: Handler, call: Call, request: Any) -> Any:
        """Return the response to the part of a request that its client may make.

        Raises:
          CoordinatorUnavailable: see Handler.
        """
        rights, topics = self.authority.of(call.peer), self._coordinator.state.topics
        creates = self._creates_topics
        if not proposes(handler.api_key, request, topics, creates_topics=creates):
            return await self._guard(handler, call, request, rights)
        noted = NotedRights(rights, self._coordinator.state.position)
        with proposing_by(noted):
            return await self._guard(handler, call, request, noted)

    async def _guard(self, handler: Handler, call: Call, request: Any, rights: Rights) -> Any:
        topics = self._coordinator.state.topics
        may_have_tokens = call.peer.may_have_tokens
        caller = Caller(rights, call.version, topics, self._creates_topics, may_have_tokens)
        guarding = NEEDS[handler.api_key](caller, request)
        try:
            return await self._run(guarding, handler, call)
        finally:
            guarding.close()

    async def _run(self, guarding: Guarding, handler: Handler, call: Call) -> Any:
        sent: Any = None
        try:
            while True:
                asked = guarding.send(sent)
                sent = None
                if asked is Ask.PAUSE:
                    await trio.lowlevel.checkpoint()
                elif asked is Ask.CATCH_UP:
                    await self._coordinator.catch_up()
                else:
                    sent = await handler.handle(call, asked)
        except StopIteration as done:
            return done.value
