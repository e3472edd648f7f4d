"""Adding and removing ACLs.

Adding an ACL that exists, or removing one that does not, changes nothing, but the request succeeds,
as in Kafka.  The gateway has checked before that the request is well formed, and that its client
has the right to make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec

from ...events.metadata_versions import FEATURE_NAME, SECURITY
from ...events.security import AclsChanged
from ...security.acls import Acl, AclFilter
from ...state.security.acls import AclTable
from ..proposal import ACLS, Decided, View
from .parts import MAX_PART_BYTES, is_one_part

MAX_REMOVED: Final = 10_000
"""ACLs that one request may remove; Kafka has the same bound."""
MAX_LOOKS: Final = 400_000
"""ACLs that the filters of one request look at, all together: it bounds the time of a decision.

The first filter may look at all ACLs, however many there are.
"""
SECURITY_NOT_YET: Final = (
    f"The cluster's {FEATURE_NAME} is below {SECURITY}: run this release on all gateways, then"
    f" raise it with kafka-features.sh upgrade --feature {FEATURE_NAME}={SECURITY}."
)
"""For a person who asks for ACLs or SCRAM credentials below that level."""
_INDEX_BYTES: Final = 5
_SCOPE: Final = frozenset({ACLS})


class AclRefusal(Enum):
    """Why ACLs stay as they are."""

    NOT_YET = "the cluster's metadata.version is too low"
    IMPOSSIBLE = "an ACL has a value that decides nothing"
    TOO_LARGE = "these are too many ACLs for one proposal"
    TOO_MANY = "one request would remove too many ACLs"
    TOO_MUCH_WORK = "the filters look at too many ACLs"


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """Add ACLs, all of them or none; parts() cuts a long list.

    Answer: None, or why none was added.
    """

    rows: Sequence[Acl]
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[AclRefusal | None]:
        """See the class."""
        refusal = self._refusal(view)
        if refusal is not None:
            return Decided((), refusal)
        table = view.state.acls
        added = tuple(_plain(each) for each in dict.fromkeys(self.rows) if each not in table)
        return Decided((AclsChanged(added, ()),) if added else (), None)

    def _refusal(self, view: View) -> AclRefusal | None:
        if view.state.metadata_version < SECURITY:
            return AclRefusal.NOT_YET
        if not all(each.is_possible for each in self.rows):
            return AclRefusal.IMPOSSIBLE
        fits = is_one_part(self.rows, lambda each: each.size_bytes)
        return None if fits else AclRefusal.TOO_LARGE


class RemovedAcls(msgspec.Struct, array_like=True, frozen=True):
    """acls: the removed ACLs. matched: for each filter, the places of its ACLs in `acls`.

    is_all: no ACL is left that a filter matches; otherwise propose the same again.
    """

    acls: tuple[Acl, ...]
    matched: tuple[tuple[int, ...], ...]
    is_all: bool


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Remove the ACLs that any of the filters matches, or as many as an entry of the log holds.

    Answer: the removed ACLs, or why none was removed.  A filter's answer has all removed ACLs that
    it matches, also if another filter matches them.
    """

    filters: Sequence[AclFilter]
    reads: frozenset[str] = field(default=_SCOPE, init=False)
    writes: frozenset[str] = field(default=_SCOPE, init=False)

    def decide(self, view: View) -> Decided[RemovedAcls | AclRefusal]:
        """See the class."""
        if view.state.metadata_version < SECURITY:
            return Decided((), AclRefusal.NOT_YET)
        found = _found(view.state.acls, self.filters)
        if isinstance(found, AclRefusal):
            return Decided((), found)
        removed = _that_fit(found)
        matched: list[list[int]] = [[] for _ in self.filters]
        for place, each in enumerate(removed):
            for number in found[each]:
                matched[number].append(place)
        answer = RemovedAcls(removed, tuple(map(tuple, matched)), len(removed) == len(found))
        return Decided((AclsChanged((), removed),) if removed else (), answer)


def _found(table: AclTable, filters: Iterable[AclFilter]) -> dict[Acl, list[int]] | AclRefusal:
    """Return the ACLs that filters match, with the numbers of those filters."""
    found: dict[Acl, list[int]] = {}
    looks = 0
    for number, wanted in enumerate(filters):
        for each in table.candidates(wanted):
            looks += 1
            if wanted.matches(each):
                found.setdefault(each, []).append(number)
        if number and looks > MAX_LOOKS:
            return AclRefusal.TOO_MUCH_WORK
    return found if len(found) <= MAX_REMOVED else AclRefusal.TOO_MANY


def _that_fit(found: dict[Acl, list[int]]) -> tuple[Acl, ...]:
    removed: list[Acl] = []
    size_bytes = 0
    for each, numbers in found.items():
        size_bytes += each.size_bytes + _INDEX_BYTES * len(numbers)
        if removed and size_bytes > MAX_PART_BYTES:
            break
        removed.append(each)
    return tuple(removed)


def _plain(acl: Acl) -> Acl:
    """Return the ACL with plain numbers, as the log has them."""
    return Acl(
        int(acl.resource_type),
        int(acl.pattern_type),
        acl.name,
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
    )
