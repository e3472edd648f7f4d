"""Runs a handler under its API's guard, if the gateway has an authorizer."""

from __future__ import annotations

from typing import Any

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable

from .feature import Ground, Row
from .network.call import Call, Handler, Rights
from .security.authority import Authority
from .security.authorizer_settings import authority_of
from .security.guard import Ask, Caller, Guarding
from .security.permit import NotedRights, proposing_by
from .topics.client_acts import note_unknown


class Guards:
    """Runs the guards of one gateway; `authority` decides.  creates_topics: see Caller."""

    def __init__(
        self, authority: Authority, coordinator: Coordinator, *, creates_topics: bool
    ) -> None:
        self.authority = authority
        self._creates_topics = creates_topics
        self._coordinator = coordinator

    async def handle(self, row: Row, call: Call, request: Any) -> Any:
        """Return the response to a request, of which only the authorized parts are handled.

        Raises:
          CoordinatorUnavailable: see Handler.
        """
        rights = self.authority.of(call.peer)
        if not row.proposes(request):
            return await self._guard(row, call, request, rights)
        noted = NotedRights(rights, self._coordinator.state.position)
        with proposing_by(noted):
            return await self._guard(row, call, request, noted)

    async def _guard(self, row: Row, call: Call, request: Any, rights: Rights) -> Any:
        topics = self._coordinator.state.topics
        may_have_tokens = call.peer.may_have_tokens
        caller = Caller(rights, call.version, topics, self._creates_topics, may_have_tokens)
        guarding = row.guard(caller, request)
        try:
            return await self._run(guarding, row.handler, call)
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


async def handled(guards: Guards | None, row: Row, call: Call, request: Any) -> Any:
    """Return the response to a request.  guards: None without an authorizer.

    request: None if the API version is unknown.

    Raises:
      CoordinatorUnavailable: see Handler.
    """
    try:
        if guards is None or request is None:
            return await row.handler.handle(call, request)
        return await guards.handle(row, call, request)
    except (CoordinatorUnavailable, trio.Cancelled):
        if row.is_audited:
            note_unknown(row.key, call)
        raise


def guards_of(ground: Ground, authority: Authority | None) -> Guards | None:
    """Return the guards of a gateway; None without an authorizer."""
    if authority is None:
        return None
    creates_topics = ground.settings.bool("auto.create.topics.enable")
    return Guards(authority, ground.coordinator, creates_topics=creates_topics)


def authority_on(ground: Ground) -> Authority | None:
    """Return the authority of a gateway, and limit how stale its ACLs may be.

    Raises:
      SettingsError: see authority_of.
    """
    settings, coordinator, now = ground.settings, ground.coordinator, trio.current_time
    found = authority_of(settings, coordinator.state.acls, now, ground.environment.audit)
    if found is not None:
        coordinator.limit_staleness(settings.int("authorizer.max.staleness.ms") / 1000)
    return found
