"""The part of a trial for ACLs, SCRAM credentials, quotas and delegation tokens; see events.py."""

from __future__ import annotations

from typing import Final

from ...events.security import (
    AclsChanged,
    ClientQuotasSet,
    DelegationTokenSet,
    DelegationTokensRemoved,
    ScramCredentialRemoved,
    ScramCredentialSealed,
    ScramCredentialSet,
)
from ...security.acls import Acl
from ...security.quota_checks import is_possible
from ...security.quotas import QuotaEntity
from ..broken import expect
from ..columns import MAX_UINT32
from ..security.scram import ScramMechanism
from ..tables import StateTables

_MECHANISMS: Final = frozenset(ScramMechanism)


class SecurityTrial:
    """See the module's head.  The trial knows which rows exist after the events so far."""

    def __init__(self, state: StateTables) -> None:
        self._state: Final = state
        self._acls: Final[dict[Acl, bool]] = {}
        self._credentials: Final[dict[tuple[str, int], bool]] = {}
        self._quotas: Final[dict[tuple[QuotaEntity, str], bool]] = {}
        self._tokens: Final[dict[str, bool]] = {}

    def acls_changed(self, event: AclsChanged) -> None:
        """Check that removed ACLs exist, and that added ones are new, and possible."""
        for each in event.removed:
            expect(self._is_there(each), f"no such ACL: {each}")
            self._acls[each] = False
        for each in event.added:
            expect(each.is_possible, f"an ACL that decides nothing: {each}")
            expect(not self._is_there(each), f"there is such an ACL: {each}")
            self._acls[each] = True

    def _is_there(self, acl: Acl) -> bool:
        found = self._acls.get(acl)
        return acl in self._state.acls if found is None else found

    def scram_set(self, event: ScramCredentialSet | ScramCredentialSealed) -> None:
        """Check that the credential can be used."""
        expect(event.mechanism in _MECHANISMS, f"SCRAM mechanism {event.mechanism}")
        expect(bool(event.user), "a SCRAM credential without a user")
        expect(0 < event.iterations <= MAX_UINT32, f"{event.iterations} iterations")
        self._credentials[event.user, event.mechanism] = True

    def scram_removed(self, event: ScramCredentialRemoved) -> None:
        """Check that the credential exists."""
        key = event.user, event.mechanism
        found = self._credentials.get(key, self._state.scram.get(*key) is not None)
        expect(found, f"user {event.user} has no credential {event.mechanism}")
        self._credentials[key] = False

    def quotas_set(self, event: ClientQuotasSet) -> None:
        """Check that removed quotas exist, and that entities can have the quotas that are set."""
        for each in event.changes:
            key = each.entity, each.key
            expect(is_possible(each), f"a quota that cannot be: {each}")
            if each.value is None:
                found = self._quotas.get(key, self._state.quotas.get(*key) is not None)
                expect(found, f"{each.entity} has no quota {each.key}")
            self._quotas[key] = each.value is not None

    def token_set(self, event: DelegationTokenSet) -> None:
        """Check that the token has an id, and does not expire after its max_ms."""
        token = event.token
        expect(bool(token.token_id), "a delegation token without an id")
        expect(token.expires_ms <= token.max_ms, f"a token that outlives its greatest age: {token}")
        self._tokens[token.token_id] = True

    def tokens_removed(self, event: DelegationTokensRemoved) -> None:
        """Check that the tokens exist."""
        for each in event.token_ids:
            found = self._tokens.get(each, self._state.tokens.get(each) is not None)
            expect(found, f"there is no delegation token {each}")
            self._tokens[each] = False
