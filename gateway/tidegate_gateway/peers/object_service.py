"""Lends ranges of objects to other gateways of the zone, on peer.listener.

The other gateways also report ranges that were damaged on arrival; this gateway then drops them
from memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import trio

from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.http.values import BINARY, HttpAnswer, HttpRequest
from tidegate_storage.stores.object_store import NoSuchObject, StoreMisconfigured, StoreUnavailable

from ..fetch.lending.object_asks import BadAsk, ObjectAsk, cluster_of, read_target
from ..fetch.lending.object_lender import ObjectLender

MAX_LENT_BYTES: Final = 64 << 20
# Longer than the timeout of the asking gateway.
READ_SECONDS: Final = 5.0


class ObjectService:
    """See the module's head.  lender: None if zone.reads=off.

    served, served_bytes: counters, for metrics.
    """

    def __init__(self, state: ClusterState, lender: ObjectLender | None) -> None:
        self.served = 0
        self.served_bytes = 0
        self._state = state
        self._lender = lender
        self._lent_bytes = 0

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request: a range with 200 and the bytes, a report of damage with 204.

        After 404 or 503 the asking gateway reads from the store.
        """
        if self._lender is None:
            return _said(403, "this gateway reads for no other: zone.reads=off")
        if request.method not in ("GET", "POST"):
            return _said(405, "objects are asked for with GET, and doubted with POST")
        try:
            ask = read_target(request.target)
            is_ours = cluster_of(ask.key) == self._state.cluster_id
        except BadAsk as error:
            return _said(400, str(error))
        if not is_ours:
            return _said(404, "an object of another cluster")
        if request.method == "POST":
            self._lender.forget(ask)
            return HttpAnswer(204)
        if self._lent_bytes + ask.length > MAX_LENT_BYTES:
            return _said(503, "busy: ask the store")
        return await self._lend(self._lender, ask)

    async def _lend(self, lender: ObjectLender, ask: ObjectAsk) -> HttpAnswer:
        """Answer with a range; its bytes count against MAX_LENT_BYTES until they are sent."""
        self._lent_bytes += ask.length
        try:
            answer = await self._read(lender, ask)
        except BaseException:
            self._give_back(ask)
            raise
        return replace(answer, on_sent=lambda: self._give_back(ask))

    async def _read(self, lender: ObjectLender, ask: ObjectAsk) -> HttpAnswer:
        try:
            with trio.move_on_after(READ_SECONDS):
                found = await lender.read(ask)
                if found is not None:
                    self.served += 1
                    self.served_bytes += ask.length
                    return HttpAnswer(200, bytes(found), BINARY)
        except NoSuchObject:
            return _said(404, "the store has no such object")
        except (StoreUnavailable, StoreMisconfigured) as error:
            return _said(503, str(error))
        return _said(503, "not to be had now: ask the store")

    def _give_back(self, ask: ObjectAsk) -> None:
        self._lent_bytes -= ask.length


def _said(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, f"{text}\n".encode())
