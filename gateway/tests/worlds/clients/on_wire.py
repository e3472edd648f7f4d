"""A client in memory for code that replays recordings: it asks a gateway as if it were Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transactions.differential.wire import ConnectionLost, Request

from tidegate_gateway.network.transport import TransportBroken

from ..wire_client import Closed, WireClient


class OnWire:
    """The twin of transactions.differential.wire.Connection."""

    def __init__(self, client: WireClient) -> None:
        self._client = client

    async def call(self, request: Request) -> Any:
        """Send a request and return its response.

        Raises:
          ConnectionLost: the gateway closed the connection.
        """
        try:
            return await self._client.call(*request)
        except (Closed, TransportBroken) as error:
            raise ConnectionLost from error

    async def call_all(self, requests: Sequence[Request]) -> list[Any]:
        """Send requests one by one; return their responses.

        Raises:
          ConnectionLost: the gateway closed the connection.
        """
        return [await self.call(each) for each in requests]

    async def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()
