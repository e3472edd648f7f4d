"""The part of a trial for ACLs and SCRAM credentials; see events.py."""

from __future__ import annotations

from typing import Final

from ...events.security import AclsChanged, ScramCredentialRemoved, ScramCredentialSet
from ...security.acls import Acl
from ..broken import expect
from ..cluster import ClusterState
from ..columns import MAX_UINT32
from ..scram import ScramMechanism

_MECHANISMS: Final = frozenset(ScramMechanism)


class SecurityTrial:
    """See the module's head.  It knows which rows are there after the events so far."""

    def __init__(self, state: ClusterState) -> None:
        self._state: Final = state
        self._acls: Final[dict[Acl, bool]] = {}
        self._credentials: Final[dict[tuple[str, int], bool]] = {}

    def acls_changed(self, event: AclsChanged) -> None:
        """Check that removed ACLs are there, and that added ones are not, and are possible."""
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

    def scram_set(self, event: ScramCredentialSet) -> None:
        """Check that it can be used."""
        expect(event.mechanism in _MECHANISMS, f"SCRAM mechanism {event.mechanism}")
        expect(bool(event.user), "a SCRAM credential without a user")
        expect(0 < event.iterations <= MAX_UINT32, f"{event.iterations} iterations")
        self._credentials[event.user, event.mechanism] = True

    def scram_removed(self, event: ScramCredentialRemoved) -> None:
        """Check that it is there."""
        key = event.user, event.mechanism
        found = self._credentials.get(key, self._state.scram.get(*key) is not None)
        expect(found, f"user {event.user} has no credential {event.mechanism}")
        self._credentials[key] = False
