"""A guard checks the requests of one API against the client's rights.

A guard is a generator, so it decides without awaiting anything:

    yield request      passes the part of the request that the client may do to the handler, and is
                       sent the handler's response
    yield Ask.CATCH_UP asks for a read of the log's end; only for an id that no topic here has, and
                       for a missing topic whose name the client may describe
    yield Ask.PAUSE    lets other clients have a turn
    return response    ends with the answer to the client

A guard that returns before it has yielded a request refuses all of it, and the handler is not
asked.  A guard may change the request and the response, since no other call uses them.  It must not
look up a name that the client has no right to.  So a denial neither causes a read of the log nor
reveals that the name exists.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar

from tidegate_coordination.security.acls import CLUSTER_NAME, Operation, ResourceType
from tidegate_coordination.state.topics import TopicTable
from tidegate_protocol.error_codes import ErrorCode, error_text

from ..network.call import Rights

_Item = TypeVar("_Item")


class Ask(Enum):
    """The requests of a guard to its caller; see the module's docstring."""

    CATCH_UP = "catch up"
    PAUSE = "pause"


ITEMS_A_TURN: Final = 200

Guarding: TypeAlias = Generator[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request.

    version: the request's API version. topics: finds the name of a topic id.  creates_topics:
    whether metadata may create topics here (auto.create.topics.enable).  may_have_tokens: see Peer.
    """

    rights: Rights
    version: int
    topics: TopicTable
    creates_topics: bool = True
    may_have_tokens: bool = True

    def may_topic(self, operation: Operation, name: str) -> bool:
        """Return whether the client may do this with the topic of this name."""
        return self.rights.may(operation, ResourceType.TOPIC, name)

    def may_group(self, operation: Operation, group_id: str) -> bool:
        """Return whether the client may do this with a group."""
        return self.rights.may(operation, ResourceType.GROUP, group_id)

    def may_id(self, operation: Operation, transactional_id: str) -> bool:
        """Return whether the client may do this with a transactional id."""
        return self.rights.may(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)

    def may_cluster(self, operation: Operation) -> bool:
        """Return whether the client may do this with the cluster."""
        return self.rights.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def sees_cluster(self, operation: Operation) -> bool:
        """Return the same as `may_cluster` without logging a denial.

        It is for cases where another right may suffice.
        """
        return self.rights.sees(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def sees_topic(self, name: str) -> bool:
        """Return whether an answer that names no topics may show the client this one."""
        return self.rights.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def bits(self, operations: Iterable[Operation], kind: ResourceType, name: str) -> int:
        """Return which of the operations the client may do, as a bit set (KIP-430)."""
        sees = self.rights.sees
        return sum(1 << each for each in operations if sees(each, kind, name))

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, as clients see ids; None if there is none."""
        topic = self.topics.by_shown_id.get(topic_id)
        return topic.name if topic is not None else None


Guard: TypeAlias = Callable[[Caller, Any], Guarding]


def parted(
    items: Iterable[_Item], is_allowed: Callable[[_Item], bool]
) -> Generator[Ask, None, tuple[list[_Item], list[_Item]]]:
    """Return the items that are allowed, and those that are not; use it with `yield from`."""
    allowed: list[_Item] = []
    denied: list[_Item] = []
    for at, each in enumerate(items, start=1):
        (allowed if is_allowed(each) else denied).append(each)
        if not at % ITEMS_A_TURN:
            yield Ask.PAUSE
    return allowed, denied


def whole(operation: Operation, refuse: Callable[[Any, int], Any]) -> Guard:
    """Return a guard of requests that need a right on the cluster.

    refuse: makes the answer, for the request's version, if the client lacks the right.
    """

    def guard(caller: Caller, request: Any) -> Guarding:
        if not caller.may_cluster(operation):
            return refuse(request, caller.version)
        return (yield request)

    return guard


def denied_whole(messages: ModuleType) -> Callable[[Any, int], Any]:
    """Return a function that refuses a request, with a text, for lack of a right on the cluster.

    messages: the generated module of the API.
    """
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return partial(messages.refused, error_code=code, error_message=error_text(code))


def open_to_all(_: Caller, request: Any) -> Guarding:
    """Guard an API that needs no right."""
    return (yield request)
