"""Events of ACLs, SCRAM credentials, client quotas and delegation tokens (tags 90 to 99).

tenant: see cluster.py.
"""

from __future__ import annotations

from ..security.acls import Acl
from ..security.quotas import QuotaChange
from ..security.tokens import DelegationToken
from .cluster import Event


class AclsChanged(Event, frozen=True, tag=90):
    """ACLs are removed, and then others are added.

    removed: each of them is there.  added: none of them is.
    """

    added: tuple[Acl, ...]
    removed: tuple[Acl, ...]
    tenant: int = 0


class ScramCredentialSet(Event, frozen=True, tag=91):
    """A user has a password, for one mechanism; KIP-554.

    mechanism: see state/scram.py.  stored_key, server_key: see RFC 5802; both are secrets.
    """

    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    tenant: int = 0

    def __repr__(self) -> str:
        return f"ScramCredentialSet(user={self.user!r}, mechanism={self.mechanism}, [hidden])"


class ScramCredentialRemoved(Event, frozen=True, tag=92):
    """A user has no password for a mechanism any more."""

    user: str
    mechanism: int
    tenant: int = 0


class ScramCredentialSealed(Event, frozen=True, tag=96):
    """A user has a password, as ScramCredentialSet says, whose secrets only gateways with a key can
    read: salt and both keys are sealed with AES-256-GCM.

    key_id: tells which key; see the gateway's sealing.py.  nonce: 12 bytes that the proposer drew.
    sealed: with the tag of 16 bytes at its end.  The other fields are bound to it.
    """

    user: str
    mechanism: int
    iterations: int
    key_id: bytes
    nonce: bytes
    sealed: bytes
    tenant: int = 0


class ClientQuotasSet(Event, frozen=True, tag=93):
    """Client quotas are set, or removed; KIP-546.

    changes: each quota of an entity at most once.  A removed one is there.
    """

    changes: tuple[QuotaChange, ...]
    tenant: int = 0


class DelegationTokenSet(Event, frozen=True, tag=94):
    """A delegation token is created, or expires at another time; KIP-48.  It holds no secret."""

    token: DelegationToken
    tenant: int = 0


class DelegationTokensRemoved(Event, frozen=True, tag=95):
    """Delegation tokens are not known any more.  token_ids: each is there, and only once."""

    token_ids: tuple[str, ...]
    tenant: int = 0
