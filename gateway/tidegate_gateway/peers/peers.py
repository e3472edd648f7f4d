"""Requests between gateways: HTTP over persistent connections (coordination/README.md)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Final, Protocol

import h11
import trio

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENER, PEER_LISTENERS
from tidegate_coordination.forwarding.messages import (
    MAX_ANSWER_BYTES,
    PROPOSALS_PATH,
    Ask,
    NotSpoken,
    Told,
    decode_told,
    encode,
)
from tidegate_coordination.forwarding.peers import Peers, PeerUnavailable
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_runtime.http.client import Connect, HttpClient, HttpUnavailable
from tidegate_runtime.http.values import BINARY, HttpAnswer
from tidegate_runtime.secret import Secret

from ..fetch.lending.object_asks import ObjectAsk, target_of
from ..fetch.lending.zone_reads import CONCURRENT_ASKS, ObjectPeers
from ..quotas.sharing.exchange import SharePeers
from ..quotas.sharing.messages import (
    MAX_MESSAGE_BYTES,
    SHARES_PATH,
    Asked,
    Granted,
    NotShares,
    decode_granted,
)
from ..quotas.sharing.messages import encode as encode_asked

FORGET_SECONDS: Final = 600.0
"""Far longer than any call may take."""
MAX_ASKING: Final = 2
MAX_REFUSAL_BYTES: Final = 4096
OK: Final = 200
UNAUTHORIZED: Final = 401
# LocalProtocolError: a request cannot carry a name.
_NO_ANSWER: Final = (HttpUnavailable, h11.LocalProtocolError)
# The object is missing or the gateway is too busy; the gateway has not failed.
MAY_SAY_NO: Final = (404, 503)

Dial = Callable[[str, int], Connect]
"""Host and port -> a function that opens connections there."""


class GatewayPeers(Peers, ObjectPeers, SharePeers, Protocol):
    """All kinds of requests between gateways."""


class HttpPeers:
    """See forwarding.peers.Peers, zone_reads.ObjectPeers, and exchange.SharePeers.

    token: sent with each request; empty if there is none.
    """

    def __init__(self, dial: Dial, token: Secret) -> None:
        self._token = token
        # Separate connections, so that proposals do not wait for records, and shares wait for
        # neither.
        self._deciders = PeerClients(dial, MAX_ASKING)
        self._lenders = PeerClients(dial, CONCURRENT_ASKS)
        self._sharers = PeerClients(dial, 1)

    @property
    def _headers(self) -> tuple[tuple[str, str], ...]:
        token = self._token.reveal_bytes().decode("latin-1")
        authorization = (("Authorization", f"Bearer {token}"),) if token else ()
        return (("Content-Type", BINARY), *authorization)

    async def ask(self, gateway: Gateway, question: Ask, timeout_seconds: float) -> Told:
        """See Peers."""
        endpoint = _endpoint(gateway)
        client = await self._deciders.client(endpoint)
        try:
            answer = await client.call(
                "POST",
                PROPOSALS_PATH,
                body=encode(question),
                headers=self._headers,
                timeout_seconds=timeout_seconds,
                max_answer_bytes=MAX_ANSWER_BYTES,
            )
        except _NO_ANSWER as error:
            raise PeerUnavailable(str(error)) from error
        return _told(endpoint, answer)

    async def lend(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> bytes | None:
        """See ObjectPeers."""
        endpoint = _endpoint(gateway)
        client = await self._lenders.client(endpoint)
        try:
            answer = await client.call(
                "GET",
                target_of(ask),
                headers=self._headers,
                timeout_seconds=timeout_seconds,
                max_answer_bytes=max(ask.length, MAX_REFUSAL_BYTES),
            )
        except _NO_ANSWER as error:
            raise PeerUnavailable(str(error)) from error
        return lent_bytes(_text(endpoint), answer, ask)

    async def doubt(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> None:
        """See ObjectPeers.  A gateway of an older release refuses, and keeps the range."""
        client = await self._lenders.client(_endpoint(gateway))
        try:
            await client.call(
                "POST",
                target_of(ask),
                headers=self._headers,
                timeout_seconds=timeout_seconds,
                max_answer_bytes=MAX_REFUSAL_BYTES,
            )
        except _NO_ANSWER as error:
            raise PeerUnavailable(str(error)) from error

    async def share(self, gateway: Gateway, asked: Asked, timeout_seconds: float) -> Granted:
        """See SharePeers."""
        endpoint = next(
            (each for each in gateway.endpoints if each.listener in PEER_LISTENERS), None
        )
        if endpoint is None:
            raise _unreachable(gateway)
        client = await self._sharers.client(endpoint)
        try:
            answer = await client.call(
                "POST",
                SHARES_PATH,
                body=encode_asked(asked),
                headers=self._headers,
                timeout_seconds=timeout_seconds,
                max_answer_bytes=MAX_MESSAGE_BYTES,
            )
        except _NO_ANSWER as error:
            raise PeerUnavailable(str(error)) from error
        return granted_shares(_text(endpoint), answer, asked)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._deciders.aclose()
        await self._lenders.aclose()
        await self._sharers.aclose()


class PeerClients:
    """HTTP clients by host and port, of the gateways that were asked in the last FORGET_SECONDS.

    max_connections: to each gateway.
    """

    def __init__(self, dial: Dial, max_connections: int) -> None:
        self._dial = dial
        self._max_connections = max_connections
        self._clients: dict[tuple[str, int], tuple[HttpClient, float]] = {}

    def __len__(self) -> int:
        return len(self._clients)

    async def client(self, endpoint: Endpoint) -> HttpClient:
        """Return the client of a gateway, and close those of gateways that stopped long ago."""
        place, now = (endpoint.host, endpoint.port), trio.current_time()
        client, _ = self._clients.pop(place, (None, 0.0))
        if client is None:
            client = HttpClient(
                self._dial(*place), host=_text(endpoint), max_connections=self._max_connections
            )
        self._clients[place] = client, now
        for each in self._unused(now):
            await each.aclose()
        return client

    def _unused(self, now: float) -> list[HttpClient]:
        """Remove and return the clients of gateways that stopped long ago."""
        as_of = now - FORGET_SECONDS
        # The first client is the one that was unused for longest.
        stale = takewhile(lambda each: each[1][1] < as_of, self._clients.items())
        old = [place for place, _ in stale]
        return [self._clients.pop(place)[0] for place in old]

    async def aclose(self) -> None:
        """Close all connections."""
        for client, _ in self._clients.values():
            await client.aclose()
        self._clients.clear()


def _endpoint(gateway: Gateway) -> Endpoint:
    found = gateway.endpoint(PEER_LISTENER)
    if found is None:
        raise _unreachable(gateway)
    return found


def _unreachable(gateway: Gateway) -> PeerUnavailable:
    return PeerUnavailable(f"gateway {gateway.node_id} has no peer.listener")


def granted_shares(who: str, answer: HttpAnswer, asked: Asked) -> Granted:
    """Return the shares from a gateway's answer.

    Raises:
      PeerUnavailable: the answer has no shares.
    """
    if answer.status != OK:
        raise _refused(who, answer)
    try:
        return decode_granted(answer.body, len(asked.wishes))
    except NotShares as error:
        raise PeerUnavailable(f"{who}: {error}") from error


def lent_bytes(who: str, answer: HttpAnswer, ask: ObjectAsk) -> bytes | None:
    """Return the range from a gateway's answer; None if the gateway cannot lend it.

    Raises:
      PeerUnavailable: the answer is neither a range nor such a refusal.
    """
    if answer.status in MAY_SAY_NO:
        return None
    if answer.status != OK:
        raise _refused(who, answer)
    if len(answer.body) != ask.length:
        raise PeerUnavailable(f"{who} gave {len(answer.body)} bytes instead of {ask.length}")
    return answer.body


def _text(endpoint: Endpoint) -> str:
    return f"{endpoint.host}:{endpoint.port}"


def _refused(who: str, answer: HttpAnswer) -> PeerUnavailable:
    if answer.status == UNAUTHORIZED:
        return PeerUnavailable(
            f"{who} answered {answer.status}: its peer.token is not this gateway's; give all"
            " gateways the same peer.token"
        )
    text = answer.body.decode(errors="replace").strip()
    return PeerUnavailable(f"{who} answered {answer.status}: {text[:200]}")


def _told(endpoint: Endpoint, answer: HttpAnswer) -> Told:
    who = _text(endpoint)
    if answer.status != OK:
        raise _refused(who, answer)
    try:
        return decode_told(answer.body)
    except NotSpoken as error:
        raise PeerUnavailable(f"{who}: {error}") from error
