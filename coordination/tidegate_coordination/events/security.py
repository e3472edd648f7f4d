"""Events of ACLs, SCRAM credentials, client quotas and delegation tokens (tags 90 to 99).

tenant: see cluster.py.
"""

from __future__ import annotations

from typing import ClassVar

from ..security.acls import Acl
from ..security.quotas import QuotaChange
from ..security.tokens import DelegationToken
from .cluster import Event
from .fields import Tenant
from .metadata_versions import DELEGATION_TOKENS, SEALS, SECURITY


class AclsChanged(Event, frozen=True, tag=90):
    """ACLs are removed, and then others are added.

    removed: ACLs that exist.  added: ACLs that do not exist yet.
    """

    level: ClassVar[int] = SECURITY

    added: tuple[Acl, ...]
    removed: tuple[Acl, ...]
    tenant: Tenant = 0


class ScramCredentialSet(Event, frozen=True, tag=91):
    """A user has a password, for one mechanism; KIP-554.

    mechanism: see state/security/scram.py.  stored_key, server_key: see RFC 5802; both are secrets.
    """

    level: ClassVar[int] = SECURITY

    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    tenant: Tenant = 0

    def __repr__(self) -> str:
        return f"ScramCredentialSet(user={self.user!r}, mechanism={self.mechanism}, [hidden])"


class ScramCredentialRemoved(Event, frozen=True, tag=92):
    """A user has no password for a mechanism any more."""

    level: ClassVar[int] = SECURITY

    user: str
    mechanism: int
    tenant: Tenant = 0


class ScramCredentialSealed(Event, frozen=True, tag=96):
    """A user has a password, as ScramCredentialSet says, whose secrets only gateways with a key can
    read: salt and both keys are sealed with AES-256-GCM.

    key_id: tells which key; see the gateway's sealing.py.  nonce: 12 bytes that the proposer drew.
    sealed: the ciphertext, with the tag of 16 bytes at its end. The other fields are bound to the
    ciphertext.
    """

    level: ClassVar[int] = SEALS

    user: str
    mechanism: int
    iterations: int
    key_id: bytes
    nonce: bytes
    sealed: bytes
    tenant: Tenant = 0


class ClientQuotasSet(Event, frozen=True, tag=93):
    """Client quotas are set, or removed; KIP-546.

    changes: each quota of an entity at most once.  A removed quota must exist.
    """

    level: ClassVar[int] = SECURITY

    changes: tuple[QuotaChange, ...]
    tenant: Tenant = 0


class DelegationTokenSet(Event, frozen=True, tag=94):
    """A delegation token is created, or expires at another time; KIP-48.

    The event holds no secret.
    """

    level: ClassVar[int] = DELEGATION_TOKENS

    token: DelegationToken
    tenant: Tenant = 0


class DelegationTokensRemoved(Event, frozen=True, tag=95):
    """Delegation tokens are not known any more.

    token_ids: each token exists, and is named once.
    """

    level: ClassVar[int] = DELEGATION_TOKENS

    token_ids: tuple[str, ...]
    tenant: Tenant = 0
