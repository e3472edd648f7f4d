"""Checks that gateways which seal write no plain credential to the log.

A second check: the sealing of a credential changes no password.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate_coordination.events.security import ScramCredentialSealed, ScramCredentialSet
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.security.scram import SealedCredential

from .sealed import opened

PLAIN: Final = "a plain credential in the log"
BACK: Final = "a replaced credential came back"
CLOSED: Final = "a credential cannot be opened"


class SealingWatch:
    """sealers: nodes whose present incarnation seals, or followed one that did.

    is_sealed: an operator has found no plain credential since all gateways seal.
    """

    def __init__(self, complain: Callable[[str, str], None]) -> None:
        self.sealers: set[int] = set()
        self.is_sealed = False
        self._complain = complain
        # Each password that a client sets has a salt of its own.
        self._salts: set[tuple[str, int, bytes]] = set()

    def before(
        self, state: ClusterState, author: int, event: ScramCredentialSet | ScramCredentialSealed
    ) -> None:
        """Check an event by the state before its entry."""
        if isinstance(event, ScramCredentialSet):
            self._plain(state, author, event)
        else:
            self._sealed(state, event)

    def _plain(self, state: ClusterState, author: int, event: ScramCredentialSet) -> None:
        gateway = state.gateways.live.get(author)
        if self.is_sealed or (gateway is not None and gateway.node_id in self.sealers):
            self._complain(PLAIN, f"of {event.user}, after entry {state.position}")
        self._salts.add((event.user, event.mechanism, event.salt))

    def _sealed(self, state: ClusterState, event: ScramCredentialSealed) -> None:
        about = event.user, event.mechanism, event.iterations
        found = opened(SealedCredential(*about, event.key_id, event.nonce, event.sealed))
        if found is None:
            return self._complain(CLOSED, f"of {event.user}, after entry {state.position}")
        salt = (event.user, event.mechanism, found.salt)
        before = opened(state.scram.get(event.user, event.mechanism))
        if salt in self._salts and before != found:
            self._complain(BACK, f"of {event.user}, after entry {state.position}")
        return self._salts.add(salt)
