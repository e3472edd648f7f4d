"""How gateways ask each other: HTTP over connections that are kept (coordination/README.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from tidegate_coordination.events import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.forwarding.messages import (
    MAX_ANSWER_BYTES,
    PROPOSALS_PATH,
    Ask,
    NotSpoken,
    Told,
    decode_told,
    encode,
)
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.http.client import Connect, HttpClient, HttpUnavailable
from tidegate_coordination.http.values import BINARY, HttpAnswer
from tidegate_coordination.state.gateways import Gateway

_log = structlog.get_logger("tidegate.peers")

MAX_PEERS: Final = 64
OK: Final = 200

Dial = Callable[[str, int], Connect]
"""Host and port -> what opens connections there."""


class HttpPeers:
    """See forwarding.peers.Peers.  token: what peers ask for; "" for nothing."""

    def __init__(self, dial: Dial, token: str) -> None:
        self._dial = dial
        self._headers = (
            ("Content-Type", BINARY),
            *((("Authorization", f"Bearer {token}"),) if token else ()),
        )
        self._clients: dict[tuple[str, int], HttpClient] = {}

    async def ask(self, gateway: Gateway, question: Ask, timeout_seconds: float) -> Told:
        """See Peers."""
        endpoint = gateway.endpoint(PEER_LISTENER)
        if endpoint is None:
            raise PeerUnavailable(f"gateway {gateway.node_id} has no peer.listener")
        client = await self._client(endpoint)
        try:
            answer = await client.call(
                "POST",
                PROPOSALS_PATH,
                body=encode(question),
                headers=self._headers,
                timeout_seconds=timeout_seconds,
                max_answer_bytes=MAX_ANSWER_BYTES,
            )
        except HttpUnavailable as error:
            raise PeerUnavailable(str(error)) from error
        return _told(endpoint, answer)

    async def _client(self, endpoint: Endpoint) -> HttpClient:
        place = (endpoint.host, endpoint.port)
        client = self._clients.pop(place, None)
        if client is None:
            connect = self._dial(*place)
            client = HttpClient(connect, host=f"{place[0]}:{place[1]}", max_connections=2)
        self._clients[place] = client
        while len(self._clients) > MAX_PEERS:  # those of gateways that are long gone
            await self._clients.pop(next(iter(self._clients))).aclose()
        return client

    async def aclose(self) -> None:
        """Close all connections."""
        for each in self._clients.values():
            await each.aclose()
        self._clients.clear()


def _told(endpoint: Endpoint, answer: HttpAnswer) -> Told:
    who = f"{endpoint.host}:{endpoint.port}"
    if answer.status != OK:
        text = answer.body.decode(errors="replace").strip()
        raise PeerUnavailable(f"{who} answered {answer.status}: {text[:200]}")
    try:
        return decode_told(answer.body)
    except NotSpoken as error:
        raise PeerUnavailable(f"{who}: {error}") from error
