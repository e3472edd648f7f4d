"""Answers other gateways, on peer.listener.

POST /v1/proposals     decides proposals of other gateways: the forwarding protocol
GET /v1/objects/...    lends a range of an object to a gateway of the zone (object_asks.py)
POST /v1/objects/...   takes a report of a range that arrived damaged
POST /v1/quota-shares  grants shares of quotas (quotas/sharing/)
all other requests     read the metadata log, for gateways that do not reach it themselves

coordination/README.md has the contracts of proposals and the log, gateway/README.md the others.
"""

from __future__ import annotations

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.forwarding.messages import (
    MAX_QUESTION_BYTES,
    PROPOSALS_PATH,
    NotSpoken,
    decode_ask,
    encode,
)
from tidegate_coordination.forwarding.service import OtherCluster, ProposalService
from tidegate_coordination.forwarding.shown_log import ShownLog
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.http.service import LogService
from tidegate_runtime.doors.slots import Visitor
from tidegate_runtime.http.hosts import KnownHosts
from tidegate_runtime.http.server import serve_http
from tidegate_runtime.http.values import BINARY, HttpAnswer, HttpRequest, Standing
from tidegate_runtime.secret import Secret

from ..fetch.lending.object_asks import OBJECTS_PATH
from ..fetch.lending.object_lender import ObjectLender
from ..quotas.sharing.messages import SHARES_PATH
from ..quotas.sharing.shares import QuotaShares
from .object_service import ObjectService
from .share_service import ShareService


class PeerService:
    """See the module's head.

    token: that peers must send; empty if there is none.  lender: None to lend no objects.  shares:
    None to grant no shares of quotas.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        log: MetadataLog,
        token: Secret,
        lender: ObjectLender | None = None,
        shares: QuotaShares | None = None,
    ) -> None:
        self.proposals = ProposalService(coordinator)
        self.objects = ObjectService(coordinator.state, lender)
        self.shares = ShareService(shares)
        self._reaches_log = log.capabilities.can_append
        self._token = token
        shown = ShownLog(log, coordinator)
        self._log = LogService(shown, token=token or None, read_only=True)

    async def serve(
        self,
        stream: trio.abc.Stream,
        visitor: Visitor,
        hosts: KnownHosts,
        *,
        has_certificate: bool = False,
    ) -> None:
        """Answer the requests of one connection, and close it.

        hosts: see serve_http().  has_certificate: the client has a trusted certificate.
        """
        asks_proof = has_certificate or bool(self._token)

        def standing_of(head: HttpRequest) -> Standing:
            if self._refusal(head) is not None:
                return Standing.STRANGER
            return Standing.KNOWN if asks_proof else Standing.GUEST

        await serve_http(
            stream,
            self.handle,
            visitor,
            hosts=hosts,
            max_body_bytes=MAX_QUESTION_BYTES,
            standing_of=standing_of,
        )

    async def handle(self, request: HttpRequest) -> HttpAnswer:
        """Answer one request."""
        if request.target.startswith(OBJECTS_PATH):
            return self._refusal(request) or await self.objects.answer(request)
        if request.target == SHARES_PATH:
            return self._refusal(request) or await self.shares.answer(request)
        if not self._reaches_log:
            return _said(421, "this gateway does not reach the metadata log itself: ask another")
        if request.target != PROPOSALS_PATH:
            return await self._log.handle(request)
        return self._refusal(request) or await self._decide(request)

    def _refusal(self, request: HttpRequest) -> HttpAnswer | None:
        """Return the refusal of a request without the token; None to accept it."""
        given = request.header("authorization") or ""
        scheme, _, token = given.partition(" ")
        # Headers are decoded as Latin-1, so this returns their original bytes.
        is_token = self._token.matches(token.encode("latin-1", "replace"))
        if self._token and not (is_token and scheme == "Bearer"):
            return _said(401, "gateways of this cluster ask each other for a token: see peer.token")
        return None

    async def _decide(self, request: HttpRequest) -> HttpAnswer:
        if request.method != "POST":
            return _said(405, "proposals are sent with POST")
        try:
            told = await self.proposals.answer(decode_ask(request.body))
        except NotSpoken as error:
            return _said(400, str(error))
        except OtherCluster as error:
            return _said(409, str(error))
        return HttpAnswer(200, encode(told), BINARY)


def _said(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, f"{text}\n".encode())
