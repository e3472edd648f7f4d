"""Notes for a person about ACLs of a source that have another effect here.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidegate_coordination.security.acls import Acl, Operation, ResourceType

from .acl_scope import Names, allows_many, denies, is_within

_USER: Final = "User:"
_KINDS: Final = {
    ResourceType.TOPIC: "topics",
    ResourceType.GROUP: "groups",
    ResourceType.TRANSACTIONAL_ID: "transactional ids",
    ResourceType.DELEGATION_TOKEN: "delegation tokens",
    ResourceType.USER: "users",
}


class Noted(NamedTuple):
    """An ACL, and what a person has to know about it."""

    acl: Acl
    why: str


class OwnNames(NamedTuple):
    """Names of this cluster that do not belong to the link, but that ACLs of the source may open.

    topics, groups, transactional_ids: such names.  link_groups, link_transactional_ids: the link's
    own names; a prefix ends with `*`.
    """

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    link_groups: tuple[str, ...] = ()
    link_transactional_ids: tuple[str, ...] = ()


class Remarks:
    """Explains for an ACL why its effect here differs from its effect at the source."""

    def __init__(self, own: OwnNames) -> None:
        self._own: Final = {
            ResourceType.TOPIC: Names(own.topics),
            ResourceType.GROUP: Names(own.groups),
            ResourceType.TRANSACTIONAL_ID: Names(own.transactional_ids),
        }
        self._linked: Final = {
            ResourceType.GROUP: own.link_groups,
            ResourceType.TRANSACTIONAL_ID: own.link_transactional_ids,
        }

    def of(self, acl: Acl) -> Iterator[str]:
        """Yield the remarks about an ACL."""
        is_denial = denies(acl)
        kind = acl.principal.partition(":")[0]
        if not acl.principal.startswith(_USER):
            loss = ": what it denies is open to them here" if is_denial else ""
            yield f"clients are principals of type User here, never {kind}{loss}"
        if "/" in acl.host:
            loss = ", so it denies nothing here" if is_denial else ""
            yield f"hosts are addresses here, and networks are not understood{loss}"
        if not is_denial:
            yield from self._opened(acl)

    def _opened(self, acl: Acl) -> Iterator[str]:
        """Yield warnings about resources of this cluster that an allowing ACL gives access to."""
        if acl.resource_type == ResourceType.CLUSTER:
            is_brokers = acl.operation == Operation.CLUSTER_ACTION
            needless = (
                "brokers need it among each other, and gateways do not; " if is_brokers else ""
            )
            yield f"{needless}it holds for all of this cluster"
            return
        kind = _KINDS[ResourceType(acl.resource_type)]
        own = self._own.get(ResourceType(acl.resource_type))
        first, count = own.about(acl) if own is not None else ("", 0)
        if count:
            more = f" and {count - 1} more" if count > 1 else ""
            yield f"it also opens {kind} that are not of this link: {first}{more}"
        elif self._opens_later(acl):
            yield f"it holds for all {kind} of this cluster that it names, not only for the link's"

    def _opens_later(self, acl: Acl) -> bool:
        """Return whether an ACL may be about other names that no client has used here yet."""
        if acl.resource_type == ResourceType.TOPIC or not allows_many(acl):
            return False
        linked = self._linked.get(ResourceType(acl.resource_type), ())
        return not any(is_within(acl, each) for each in linked)


def misfit(acl: Acl) -> str:
    """Return why this cluster cannot have an ACL."""
    if not ResourceType.TOPIC <= acl.resource_type <= ResourceType.USER:
        return f"this release knows no resources of type {acl.resource_type}"
    if not Operation.ALL <= acl.operation <= Operation.TWO_PHASE_COMMIT:
        return f"this release knows no operation {acl.operation}"
    return "this release does not understand its pattern, principal or permission"
