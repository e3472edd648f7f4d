"""Warnings about features that clients ask for and the gateway does not serve.

The client gets an error code or a closed connection.  Many clients show no text for that, or retry
forever.  So the gateway logs which client asked for which feature, and which setting of the client
to change: once per client id, feature and minute.  Repetitions within the minute are counted, and
the next warning has their number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from tidegate_runtime.line_rates import LineRate

from ..network.call import Peer
from ..unserved import Refusal

_log = structlog.get_logger("tidegate.clients")

SAY_AGAIN_SECONDS: Final = 60.0
MAX_KEPT: Final = 1024
# The most warnings a minute, for all clients: a client with ever new ids must not fill the log.
MAX_LINES: Final = 100
MAX_NAME_CHARACTERS: Final = 128


@dataclass(slots=True)
class _Said:
    at: float
    untold: int = 0


class RefusedFeatures:
    """Remembers MAX_KEPT pairs of client and feature; first drops the pair with the oldest warning.

    Args:
      now: seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._said: dict[tuple[str, str], _Said] = {}
        self._rate = LineRate(MAX_LINES)

    def note(self, peer: Peer, refusal: Refusal) -> None:
        """Log or count that a client was refused a feature."""
        key = (peer.client_id or "")[:MAX_NAME_CHARACTERS], refusal.what
        said = self._said.get(key)
        now = self._now()
        if said is not None and now - said.at < SAY_AGAIN_SECONDS:
            said.untold += 1
            return
        self._keep(key, now)
        left_out = self._rate.take(now)
        if left_out is not None:
            _log.warning(
                "a client asks for a feature that is not served",
                client_id=key[0],
                peer=f"{peer.host}:{peer.port}",
                what=refusal.what,
                advice=refusal.advice,
                times=1 + (said.untold if said is not None else 0),
                **({"left_out": left_out} if left_out else {}),
            )

    def _keep(self, key: tuple[str, str], now: float) -> None:
        _ = self._said.pop(key, None)
        while len(self._said) >= MAX_KEPT:
            del self._said[next(iter(self._said))]
        self._said[key] = _Said(now)
