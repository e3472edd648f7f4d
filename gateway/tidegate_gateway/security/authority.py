"""The rights of one client, and the authority that decides them.

Decisions are cached until the ACLs change, so a repeated request costs one table lookup.  Like
Kafka's authorizer, the authority logs denials, each one only once while it is cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

import structlog

from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_coordination.security.authorizer import Authorizer
from tidegate_coordination.state.security.acls import AclTable
from tidegate_runtime.line_rates import UNLIMITED, LineRate

from ..audit import Audit
from ..network.call import Peer, Rights
from .hosts import host_of

_log = structlog.get_logger("tidegate.authorizer", UNLIMITED)  # note_denied() limits these lines

MAX_KEPT: Final = 2_000
"""Decisions of one client; a request that names more costs their look-ups again."""
MAX_CLIENTS: Final = 10_000
"""Pairs of principal and host whose decisions are kept."""

MAX_LINES: Final = 1_000
MAX_NAME: Final = 300
"""Characters of a name in a log line; names of topics have 249 at most."""

_OPERATION_BITS: Final = 5
_Question: TypeAlias = tuple[Operation, ResourceType, str]


class Authority:
    """Decides by the cluster's ACLs; one for all clients of a gateway.

    denials: the number of denials.  At most MAX_LINES denials a minute are logged, so that a client
    that asks for many names does not fill the log.

    Args:
      now: seconds of a monotonic clock.
      audit: also records denials; None without an audit log.
    """

    def __init__(
        self,
        acls: AclTable,
        authorizer: Authorizer,
        now: Callable[[], float],
        audit: Audit | None = None,
    ) -> None:
        self._now = now
        self._rate = LineRate(MAX_LINES)
        self._audit = audit
        self.acls = acls
        self.authorizer = authorizer
        self.denials = 0
        self._clients: Final[OrderedDict[tuple[str, str], ClientRights]] = OrderedDict()

    def of(self, peer: Peer) -> Rights:
        """Return the rights of a connection's client."""
        rights = peer.rights
        if rights is None or rights.principal != peer.principal:
            rights = peer.rights = self._of(peer.principal, peer.host)
        return rights

    def _of(self, principal: str, host: str) -> Rights:
        key = principal, host
        rights = self._clients.get(key)
        if rights is None:
            rights = self._clients[key] = ClientRights(self, principal, host_of(host))
            if len(self._clients) > MAX_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(key)
        return rights

    def note_denied(self, rights: ClientRights, question: _Question) -> None:
        """Count and log a denial."""
        self.denials += 1
        untold = self._rate.take(self._now())
        if untold is None:
            return
        operation, kind, name = question
        facts: dict[str, object] = {
            "principal": rights.principal,
            "host": rights.host,
            "operation": operation.name,
            "resource": f"{kind.name}:{name[:MAX_NAME]}",
        }
        if untold:
            facts["untold_before"] = untold
        _log.info("denied", **facts)
        if self._audit is not None:
            self._audit.note("denied", **facts)


class ClientRights:
    """See network/call.py, Rights."""

    __slots__ = ("_any", "_as_of", "_authority", "_count", "_kept", "_told", "host", "principal")

    def __init__(self, authority: Authority, principal: str, host: str) -> None:
        self.principal = principal
        self.host = host
        self._authority = authority
        # By operation and type, then by name: enum members are slow as dict keys.
        self._kept: dict[int, dict[str, bool]] = {}
        self._any: dict[int, bool] = {}  # by operation and type
        self._count = 0
        self._told: set[_Question] = set()  # the denials that have been logged
        self._as_of = -1

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """See Rights."""
        if self.sees(operation, kind, name):
            return True
        question = operation, kind, name
        if question not in self._told:
            self._told.add(question)
            self._authority.note_denied(self, question)
        return False

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """See Rights."""
        if self._as_of != self._authority.acls.version or self._count >= MAX_KEPT:
            self._forget()
        names = self._kept.get(kind << _OPERATION_BITS | operation)
        kept = names.get(name) if names is not None else None
        return self._decide(operation, kind, name) if kept is None else kept

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """See Rights."""
        key = kind << _OPERATION_BITS | operation
        if self._as_of != self._authority.acls.version:
            self._forget()
        kept = self._any.get(key)
        if kept is None:
            decide = self._authority.authorizer.may_any
            kept = self._any[key] = decide(self.principal, self.host, operation, kind)
        return kept

    def _forget(self) -> None:
        self._kept.clear()
        self._any.clear()
        self._told.clear()
        self._count = 0
        self._as_of = self._authority.acls.version

    def _decide(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        decide = self._authority.authorizer.may
        found = decide(self.principal, self.host, operation, kind, name)
        self._kept.setdefault(kind << _OPERATION_BITS | operation, {})[name] = found
        self._count += 1
        return found
