"""Delegation tokens, as events and snapshots hold them (KIP-48, KIP-373)."""

from __future__ import annotations

from typing import Final

import msgspec

USER: Final = "User"
"""The only type of principals that tokens are for."""
_NUMBERS_BYTES: Final = 48  # of a token, with the lengths of its texts
_ROW_BYTES: Final = 512  # of a token in memory, with its secret and its rows in tables
_TEXT_BYTES: Final = 64  # of an empty text in memory


class DelegationToken(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A token without its secret, which follows from the id and `delegation.token.secret.key`.

    owner: a client that logs in by the token is this principal.  requester: this principal created
    the token.  renewers: these principals may renew and expire it, as its owner may.  Each is
    `type:name`.  Times are ms since 1970.  The token is valid until expires_ms, inclusive; no
    renewal moves that beyond max_ms.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_expired(self, now_ms: float) -> bool:
        """Return whether it has expired."""
        return self.expires_ms < now_ms

    def is_renewed_by(self, principal: str) -> bool:
        """Return whether a principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers

    @property
    def principals(self) -> tuple[str, ...]:
        """Return the principals that may see it without further rights."""
        return (self.owner, self.requester, *self.renewers)

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes the token takes in an entry of the log."""
        return _NUMBERS_BYTES + sum(4 + len(each.encode()) for each in self._texts)

    @property
    def memory_bytes(self) -> int:
        """Return about how many bytes the token takes in a gateway's memory."""
        return _ROW_BYTES + sum(_TEXT_BYTES + len(each.encode()) for each in self._texts)

    @property
    def _texts(self) -> tuple[str, ...]:
        return (self.token_id, self.owner, self.requester, *self.renewers)
