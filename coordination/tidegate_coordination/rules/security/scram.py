"""Setting, removing and sealing SCRAM credentials (KIP-554).

The gateway has checked before that no user is named twice, that the iterations are within Kafka's
bounds, and that the names are valid; it has derived the keys from the salted password.  The rule
checks that a credential to remove exists, and that a credential to seal again is unchanged.  No
rule knows a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from ...events.cluster import Event
from ...events.metadata_versions import SEALS, SECURITY
from ...events.security import ScramCredentialRemoved, ScramCredentialSealed, ScramCredentialSet
from ...state.security.scram import (
    KeptCredential,
    ScramCredential,
    ScramMechanism,
    SealedCredential,
    fingerprint,
)
from ..proposal import SCRAM, Decided, View
from .parts import is_one_part

MAX_SALT_BYTES: Final = 1 << 10
MAX_KEY_BYTES: Final = 64
"""The length of keys of SCRAM-SHA-512; those of SCRAM-SHA-256 are shorter."""
KEY_ID_BYTES: Final = 8
NONCE_BYTES: Final = 12
MAX_SEALED_BYTES: Final = MAX_SALT_BYTES + 2 * MAX_KEY_BYTES + 64
"""The secrets, how they are encoded, and the tag."""
_SCOPE: Final = frozenset({SCRAM})
_MECHANISMS: Final = frozenset(ScramMechanism)


class ScramRefusal(Enum):
    """Why a user's credentials stay as they are."""

    NOT_YET = "the cluster's metadata.version is too low"
    NOT_FOUND = "the user has no such credential"
    IMPOSSIBLE = "the credential cannot be used"
    TOO_LARGE = "these are too many credentials for one proposal"


class ScramDeletion(msgspec.Struct, array_like=True, frozen=True):
    """A credential to remove.

    before: remove the credential only if its fingerprint() still equals this; empty: in any case.
    """

    user: str
    mechanism: int
    before: bytes = b""


class Resealing(msgspec.Struct, array_like=True, frozen=True):
    """A credential to seal, or to seal with another key.

    before: the fingerprint() of the present one.
    """

    before: bytes
    after: SealedCredential


ScramChange: TypeAlias = KeptCredential | ScramDeletion


def size_bytes(change: ScramChange) -> int:
    """Return about how many bytes a change takes in an entry of the log, for parts()."""
    keys = 0
    if isinstance(change, ScramCredential):
        keys = len(change.salt) + len(change.stored_key) + len(change.server_key)
    if isinstance(change, SealedCredential):
        keys = KEY_ID_BYTES + NONCE_BYTES + len(change.sealed)
    return 32 + len(change.user.encode()) + keys


@dataclass(frozen=True, slots=True)
class AlterScramCredentials:
    """Set and remove credentials; each by itself.  parts() cuts long lists.

    Answer: of each deletion, then of each upsertion, and then of each sealed one None, or why
    nothing changed.
    """

    upsertions: Sequence[ScramCredential]
    deletions: Sequence[ScramDeletion] = ()
    sealed: Sequence[SealedCredential] = ()
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[list[ScramRefusal | None]]:
        """See the class."""
        everything: list[ScramChange] = [*self.deletions, *self.upsertions, *self.sealed]
        if view.state.metadata_version < SECURITY:
            return Decided((), [ScramRefusal.NOT_YET] * len(everything))
        if not is_one_part(everything, size_bytes):
            return Decided((), [ScramRefusal.TOO_LARGE] * len(everything))
        removed = [_removal(view, each) for each in self.deletions]
        new: list[KeptCredential] = [*self.upsertions, *self.sealed]
        refusals = [_misfit(view, each) for each in new]
        events: list[Event] = list(dict.fromkeys(each for each in removed if each is not None))
        events += [
            _setting(each) for each, refusal in zip(new, refusals, strict=True) if refusal is None
        ]
        missing = (ScramRefusal.NOT_FOUND if each is None else None for each in removed)
        return Decided(events, [*missing, *refusals])


@dataclass(frozen=True, slots=True)
class SealScramCredentials:
    """Seal credentials as they are.

    A credential that was changed meanwhile stays; parts() cuts long lists.

    Answer: how many were sealed.
    """

    changes: Sequence[Resealing]
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[int]:
        """See the class."""
        if not is_one_part(self.changes, lambda each: size_bytes(each.after)):
            return Decided((), 0)
        events = [
            _setting(each.after)
            for each in self.changes
            if _is_same(view, each) and _misfit(view, each.after) is None
        ]
        return Decided(events, len(events))


def _is_same(view: View, change: Resealing) -> bool:
    found = view.state.scram.get(change.after.user, change.after.mechanism)
    return (
        found is not None
        and found.iterations == change.after.iterations
        and fingerprint(found) == change.before
    )


def _removal(view: View, change: ScramDeletion) -> ScramCredentialRemoved | None:
    found = view.state.scram.get(change.user, change.mechanism)
    if found is None or (change.before and fingerprint(found) != change.before):
        return None
    return ScramCredentialRemoved(change.user, int(change.mechanism))


def _misfit(view: View, new: KeptCredential) -> ScramRefusal | None:
    if isinstance(new, SealedCredential):
        if view.state.metadata_version < SEALS:
            return ScramRefusal.NOT_YET
        has_fit = (
            len(new.key_id) == KEY_ID_BYTES
            and len(new.nonce) == NONCE_BYTES
            and len(new.sealed) <= MAX_SEALED_BYTES
        )
    else:
        has_fit = (
            len(new.salt) <= MAX_SALT_BYTES
            and max(len(new.stored_key), len(new.server_key)) <= MAX_KEY_BYTES
        )
    is_usable = (
        has_fit and new.user != "" and new.mechanism in _MECHANISMS and 0 < new.iterations < 1 << 31
    )
    return None if is_usable else ScramRefusal.IMPOSSIBLE


def _setting(new: KeptCredential) -> Event:
    if isinstance(new, SealedCredential):
        about = new.user, int(new.mechanism), new.iterations
        return ScramCredentialSealed(*about, new.key_id, new.nonce, new.sealed)
    keys = new.salt, new.stored_key, new.server_key
    return ScramCredentialSet(new.user, int(new.mechanism), *keys, new.iterations)
