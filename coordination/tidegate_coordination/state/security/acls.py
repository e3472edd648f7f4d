"""All ACLs of the cluster, and the index that decides with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ...events.security import AclsChanged
from ...security.acls import ANY_NAME, Acl, AclFilter, PatternType
from ...security.authorizer import AclIndex
from ..broken import expect
from ..frozen import FrozenRows, frozen_values


class AclTable:
    """See the module's head.

    version: rises with every change, for caches of decisions.  changed_at: the log position of the
    last change; changes before a snapshot count as made at the snapshot.  No fold reads it, so no
    snapshot holds it.
    """

    def __init__(self) -> None:
        self.index: Final = AclIndex()
        self.version = 0
        self.changed_at = 0
        self._rows: Final[dict[Acl, None]] = {}
        self._by_name: Final[dict[str, dict[Acl, None]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, acl: object) -> bool:
        return acl in self._rows

    def __iter__(self) -> Iterator[Acl]:
        """Yield all ACLs in the order in which they were added."""
        return iter(self._rows)

    def matching(self, wanted: AclFilter) -> list[Acl]:
        """Return the ACLs that a filter matches.

        A filter without a name takes a walk over all ACLs.
        """
        return [each for each in self.candidates(wanted) if wanted.matches(each)]

    def candidates(self, wanted: AclFilter) -> Iterable[Acl]:
        """Return a superset of the ACLs that a filter matches."""
        one = wanted.one
        if one is not None:
            return (one,) if one in self._rows else ()
        if wanted.name is None:
            return self._rows
        if wanted.pattern_type != PatternType.MATCH:
            return self._by_name.get(wanted.name, ())
        return self._about(wanted.name)

    def _about(self, name: str) -> Iterator[Acl]:
        """Yield the ACLs of a name, of all names, and of prefixes of the name."""
        if len(name) > len(self._by_name):
            names = [each for each in self._by_name if name.startswith(each)]
        else:
            names = [name[:end] for end in range(1, len(name) + 1)]
        for each in dict.fromkeys((*names, ANY_NAME)):
            yield from self._by_name.get(each, ())

    def fold_changed(self, event: AclsChanged, position: int) -> None:
        """Remove and add ACLs, by the entry at a log position."""
        for each in event.removed:
            expect(each in self._rows, f"no such ACL: {each}")
            self._remove(each)
        for each in event.added:
            expect(each not in self._rows, f"there is such an ACL: {each}")
            self._add(each)
        self.version += 1
        self.changed_at = position

    def _add(self, acl: Acl) -> None:
        self._rows[acl] = None
        self._by_name.setdefault(acl.name, {})[acl] = None
        self.index.add(acl)

    def _remove(self, acl: Acl) -> None:
        del self._rows[acl]
        same_name = self._by_name[acl.name]
        del same_name[acl]
        if not same_name:
            del self._by_name[acl.name]
        self.index.remove(acl)

    def frozen(self) -> FrozenRows[Acl]:
        """Return the present rows, to be encoded later."""
        return frozen_values("acls", [list(self._rows)])

    def decode(self, rows: Iterable[Any]) -> None:
        """Add the rows of a piece of a snapshot."""
        for acl in msgspec.convert(rows, list[Acl]):
            self._add(acl)
