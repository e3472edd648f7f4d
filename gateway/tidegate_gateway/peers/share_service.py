"""Grants shares of quotas to other gateways, on peer.listener."""

from __future__ import annotations

import trio

from tidegate_runtime.http.values import BINARY, HttpAnswer, HttpRequest

from ..quotas.sharing.messages import MAX_MESSAGE_BYTES, NotShares, decode_asked, encode
from ..quotas.sharing.shares import NotOurs, QuotaShares


class ShareService:
    """See the module's head.  shares: None to grant none."""

    def __init__(self, shares: QuotaShares | None) -> None:
        self._shares = shares

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request: 200 with the shares, or an error with the reason."""
        if self._shares is None or not self._shares.asks:
            return _said(403, "this gateway shares no quotas: quota.scope=broker")
        if request.method != "POST":
            return _said(405, "shares are asked for with POST")
        if len(request.body) > MAX_MESSAGE_BYTES:
            return _said(413, "a question about shares that is too large")
        try:
            now_ms = int(trio.current_time() * 1_000)
            granted = await self._shares.answer(decode_asked(request.body), now_ms)
        except NotShares as error:
            return _said(400, str(error))
        except NotOurs as error:
            return _said(409, str(error))
        return HttpAnswer(200, encode(granted), BINARY)


def _said(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, f"{text}\n".encode())
