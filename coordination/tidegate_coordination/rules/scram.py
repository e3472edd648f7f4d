"""Setting and removing SCRAM credentials (KIP-554).

The gateway has checked before that no user is named twice, that the iterations are within Kafka's
bounds, and that the names are valid; it has derived the keys from the salted password.  Left to the
rule is whether a credential that is to be removed is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec

from ..events.cluster import Event
from ..events.metadata_versions import SECURITY
from ..events.security import ScramCredentialRemoved, ScramCredentialSet
from ..state.scram import ScramCredential, ScramMechanism
from .parts import is_one_part
from .proposal import SCRAM, Decided, View

MAX_SALT_BYTES: Final = 1 << 10
MAX_KEY_BYTES: Final = 64
"""Of SCRAM-SHA-512, the longer ones."""
_SCOPE: Final = frozenset({SCRAM})
_MECHANISMS: Final = frozenset(ScramMechanism)


class ScramRefusal(Enum):
    """Why a user's credentials stay as they are."""

    NOT_YET = "the cluster's metadata.version is too low"
    NOT_FOUND = "the user has no such credential"
    IMPOSSIBLE = "the credential cannot be used"
    TOO_LARGE = "these are too many credentials for one proposal"


class ScramDeletion(msgspec.Struct, array_like=True, frozen=True):
    """A credential to remove."""

    user: str
    mechanism: int


def size_bytes(change: ScramCredential | ScramDeletion) -> int:
    """Return about how many bytes a change takes in an entry of the log, for parts()."""
    keys = 0
    if isinstance(change, ScramCredential):
        keys = len(change.salt) + len(change.stored_key) + len(change.server_key)
    return 32 + len(change.user.encode()) + keys


@dataclass(frozen=True, slots=True)
class AlterScramCredentials:
    """Set and remove credentials; each by itself.  parts() cuts long lists.

    Answer: of each deletion and then of each upsertion None, or why nothing changed.
    """

    upsertions: Sequence[ScramCredential]
    deletions: Sequence[ScramDeletion] = ()
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[list[ScramRefusal | None]]:
        """See the class."""
        everything: list[ScramCredential | ScramDeletion] = [*self.deletions, *self.upsertions]
        if view.state.metadata_version < SECURITY:
            return Decided((), [ScramRefusal.NOT_YET] * len(everything))
        if not is_one_part(everything, size_bytes):
            return Decided((), [ScramRefusal.TOO_LARGE] * len(everything))
        removed = [_removal(view, each) for each in self.deletions]
        refusals = [_misfit(each) for each in self.upsertions]
        events: list[Event] = list(dict.fromkeys(each for each in removed if each is not None))
        events += [
            _setting(each)
            for each, refusal in zip(self.upsertions, refusals, strict=True)
            if refusal is None
        ]
        missing = (ScramRefusal.NOT_FOUND if each is None else None for each in removed)
        return Decided(events, [*missing, *refusals])


def _removal(view: View, change: ScramDeletion) -> ScramCredentialRemoved | None:
    if view.state.scram.get(change.user, change.mechanism) is None:
        return None
    return ScramCredentialRemoved(change.user, int(change.mechanism))


def _misfit(new: ScramCredential) -> ScramRefusal | None:
    is_usable = (
        new.user != ""
        and new.mechanism in _MECHANISMS
        and 0 < new.iterations < 1 << 31
        and len(new.salt) <= MAX_SALT_BYTES
        and max(len(new.stored_key), len(new.server_key)) <= MAX_KEY_BYTES
    )
    return None if is_usable else ScramRefusal.IMPOSSIBLE


def _setting(new: ScramCredential) -> ScramCredentialSet:
    keys = new.salt, new.stored_key, new.server_key
    return ScramCredentialSet(new.user, int(new.mechanism), *keys, new.iterations)
