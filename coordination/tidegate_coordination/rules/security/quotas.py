"""Setting and removing client quotas (KIP-546).

The gateway has checked entities, keys and values before (security/quota_checks.py), with Kafka's
texts.  The rule checks the level, and drops changes without effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ...events.metadata_versions import SECURITY
from ...events.security import ClientQuotasSet
from ...security.quota_checks import is_possible
from ...security.quotas import QuotaChange
from ..proposal import QUOTAS, Decided, View
from .parts import is_one_part

_SCOPE: Final = frozenset({QUOTAS})


class QuotaRefusal(Enum):
    """Why no quota of a proposal changes."""

    NOT_YET = "the cluster's metadata.version is too low"
    IMPOSSIBLE = "an entity cannot have such a quota"
    TOO_LARGE = "these are too many quotas for one proposal"


def size_bytes(change: QuotaChange) -> int:
    """Return about how many bytes a change takes in an entry of the log, for parts()."""
    names = sum(len(name.encode()) for _, name in change.entity.parts())
    return 32 + names + len(change.key)


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    """Set and remove quotas, all or none.  parts() cuts long lists.

    The removal of a missing quota changes nothing, as in Kafka.  only_checks: change nothing.
    """

    changes: Sequence[QuotaChange]
    only_checks: bool = False
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[QuotaRefusal | None]:
        """Answer None, or why nothing changed."""
        if view.state.metadata_version < SECURITY:
            return Decided((), QuotaRefusal.NOT_YET)
        if not is_one_part(self.changes, size_bytes):
            return Decided((), QuotaRefusal.TOO_LARGE)
        if not all(map(is_possible, self.changes)):
            return Decided((), QuotaRefusal.IMPOSSIBLE)
        real = tuple(self._real(view))
        if not real or self.only_checks:
            return Decided((), None)
        return Decided((ClientQuotasSet(real),), None)

    def _real(self, view: View) -> Iterator[QuotaChange]:
        """Yield the changes that differ from the state; for each quota the last one counts."""
        last = {(each.entity, each.key): each for each in self.changes}
        for (entity, key), change in last.items():
            if view.state.quotas.get(entity, key) != change.value:
                yield change
