"""The rights for which a request is served, noted to be looked up again when it is decided.

See tidegate_coordination/coordinator/permits.py.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from tidegate_coordination.coordinator.permits import PERMIT
from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_coordination.state.topics import TopicTable
from tidegate_protocol.apis import ApiKey

from ..network.call import Rights

PROPOSING: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.CREATE_DELEGATION_TOKEN,
    }
)
"""The requests that change the cluster as an administrator does; see proposes() for one more."""


def proposes(api_key: int, request: Any, topics: TopicTable, *, creates_topics: bool) -> bool:
    """Return whether a request may change the cluster.

    creates_topics: whether Metadata creates topics here.  It is asked for often, and for topics
    that are here.
    """
    if api_key != ApiKey.METADATA:
        return api_key in PROPOSING
    if not (creates_topics and request.allow_auto_topic_creation and request.topics):
        return False
    known = topics.by_name
    return any(each.name and each.name not in known for each in request.topics)


class NotedRights:
    """A client's rights, and those of them that one request needs.

    as_of: see Permit.
    """

    __slots__ = ("_needed", "_rights", "as_of")

    def __init__(self, rights: Rights, as_of: int) -> None:
        self.as_of = as_of
        self._rights = rights
        self._needed: Final[set[tuple[Operation, ResourceType, str | None]]] = set()

    @property
    def principal(self) -> str:
        """See Rights."""
        return self._rights.principal

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """See Rights."""
        return self._noted(operation, kind, name, self._rights.may(operation, kind, name))

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """See Rights."""
        return self._noted(operation, kind, name, self._rights.sees(operation, kind, name))

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """See Rights."""
        return self._noted(operation, kind, None, self._rights.may_any(operation, kind))

    def _noted(
        self, operation: Operation, kind: ResourceType, name: str | None, found: bool
    ) -> bool:
        if found:
            self._needed.add((operation, kind, name))
        return found

    def renew(self, position: int) -> bool:
        """See Permit."""
        if not all(self._holds(*each) for each in self._needed):
            return False
        self.as_of = position
        return True

    def _holds(self, operation: Operation, kind: ResourceType, name: str | None) -> bool:
        if name is None:
            return self._rights.may_any(operation, kind)
        return self._rights.may(operation, kind, name)


@contextmanager
def proposing_by(rights: NotedRights) -> Generator[None]:
    """Let the proposals of this block hold only as long as the rights that were noted."""
    token = PERMIT.set(rights)
    try:
        yield
    finally:
        PERMIT.reset(token)
