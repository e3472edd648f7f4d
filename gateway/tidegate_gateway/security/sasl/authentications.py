"""Counts of authentications, and warnings about those that failed.

The number of warnings is limited: a client that guesses passwords must not fill the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from tidegate_runtime.line_rates import UNLIMITED, LineRate

from ...audit import Audit
from ...network.call import Peer

_log = structlog.get_logger("tidegate.security", UNLIMITED)  # note_failure() limits these lines

MAX_LINES: Final = 100


class Authentications:
    """succeeded, failed, expired: by listener; `expired` counts connections closed at session end.

    At most MAX_LINES warnings are logged a minute; later warnings tell how many were left out.

    Args:
      now: seconds of a monotonic clock.
      audit: also records authentications; None without an audit log.
    """

    def __init__(self, now: Callable[[], float], audit: Audit | None = None) -> None:
        self._audit = audit
        self.succeeded: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.expired: Counter[str] = Counter()
        self._now = now
        self._rate = LineRate(MAX_LINES)

    def note_success(self, peer: Peer, mechanism: str, token_id: str | None = None) -> None:
        """Count a success. token_id: the delegation token that the client used, if any."""
        self.succeeded[peer.listener] += 1
        if self._audit is not None:
            self._audit.note(
                "logged in",
                principal=peer.principal,
                peer=f"{peer.host}:{peer.port}",
                listener=peer.listener,
                mechanism=mechanism,
                **_by_token(token_id),
            )

    def note_failure(
        self, peer: Peer, mechanism: str, why: str, token_id: str | None = None
    ) -> None:
        """Count a failure, and log it.

        why: holds no secret of the client. token_id: the delegation token that the client named, if
        it is known here.
        """
        self.failed[peer.listener] += 1
        untold = self._rate.take(self._now())
        if untold is None:
            return
        more = {"untold_before": untold} if untold else {}
        facts: dict[str, object] = {
            "peer": f"{peer.host}:{peer.port}",
            "listener": peer.listener,
            "client_id": (peer.client_id or "")[:128],
            "mechanism": mechanism,
            "reason": why,
            **more,
        }
        _log.warning("a client was not authenticated", **facts)
        if self._audit is not None:
            self._audit.note("login failed", **facts, **_by_token(token_id))


def _by_token(token_id: str | None) -> dict[str, str]:
    """Return the token id as a field for audit lines; other log lines mask fields of this name."""
    return {"token": token_id} if token_id else {}
