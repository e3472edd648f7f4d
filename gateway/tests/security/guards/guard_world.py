"""Runs a guard without a gateway: the test sets what is allowed, and what the handler answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate_coordination.events.cluster import TopicCreated
from tidegate_coordination.security.acls import CLUSTER_NAME, Operation, ResourceType
from tidegate_coordination.state.topics import TopicTable
from tidegate_gateway.security.guard import Ask, Caller, Guard
from tidegate_protocol.error_codes import ErrorCode

Question = tuple[Operation, ResourceType, str]

CLUSTER = ResourceType.CLUSTER, CLUSTER_NAME


def topic(operation: Operation, name: str) -> Question:
    """Return the question whether a client may do this with a topic."""
    return operation, ResourceType.TOPIC, name


def group(operation: Operation, name: str) -> Question:
    """Return the question whether a client may do this with a group."""
    return operation, ResourceType.GROUP, name


def transactional_id(operation: Operation, name: str) -> Question:
    """Return the question whether a client may do this with a transactional id."""
    return operation, ResourceType.TRANSACTIONAL_ID, name


def cluster(operation: Operation) -> Question:
    """Return the question whether a client may do this with the cluster."""
    return operation, *CLUSTER


@dataclass
class Allowed:
    """The rights of a client (network/call.py, Rights).  asked: all questions, in order."""

    allowed: frozenset[Question]
    any_topic: bool = False
    principal: str = "User:tester"
    asked: list[Question] = field(default_factory=list[Question])

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Answer as the test says."""
        self.asked.append((operation, kind, name))
        return (operation, kind, name) in self.allowed

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Answer as the test says."""
        return self.may(operation, kind, name)

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Answer as the test says."""
        return self.any_topic


@dataclass
class Run:
    """The result of a guard.  passed: the request that the handler got; None if it got none."""

    response: Any
    passed: Any
    asked: list[Question]
    catch_ups: int


def run(
    guard: Guard,
    request: Any,
    *allowed: Question,
    answer: Callable[[Any], Any] = lambda _: None,
    version: int = 0,
    topics: TopicTable | None = None,
    on_catch_up: Callable[[], None] = lambda: None,
    any_topic: bool = False,
) -> Run:
    """Run a guard; `answer` makes the handler's response out of the request that it gets."""
    rights = Allowed(frozenset(allowed), any_topic)
    guarding = guard(Caller(rights, version, topics or TopicTable()), request)
    found = Run(None, None, rights.asked, 0)
    sent: Any = None
    while True:
        try:
            asked = guarding.send(sent)
        except StopIteration as done:
            found.response = done.value
            return found
        sent = None
        if asked is Ask.CATCH_UP:
            found.catch_ups += 1
            on_catch_up()
        elif asked is not Ask.PAUSE:
            found.passed, sent = asked, answer(asked)


TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

SEES_OPEN = topic(Operation.DESCRIBE, "open")

OPEN_ID, SECRET_ID, UNKNOWN_ID = b"o" * 16, b"s" * 16, b"u" * 16


def two_topics() -> TopicTable:
    """Return a table with the topics `open` and `secret`."""
    table = TopicTable()
    for number, (topic_id, name) in enumerate(((OPEN_ID, "open"), (SECRET_ID, "secret"))):
        table.fold_created(TopicCreated(topic_id, name, 1, 1, {}), [number])
    return table


def names(items: Any) -> list[str]:
    """Return the names of topics."""
    return [each.name for each in items]


def codes(response: Any) -> dict[Any, int]:
    """Return the code of each topic's first partition."""
    return {each.name or each.topic_id: each.partitions[0].error_code for each in response.topics}
