"""One broker of the matrix: its listeners, its users, and one user's answers to all questions."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import trio
from transactions.differential.wire import ConnectionLost, Request, connect

from tidegate_coordination.security.acls import Acl
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import sasl_authenticate as sau
from tidegate_protocol.messages import sasl_handshake as sha
from tidegate_protocol.primitives import ZERO_UUID
from tidegate_protocol.records import Record, build_batch

from .answers import Shown, shown
from .questions import Question, questions
from .rights import ADMIN, GROUP, HIDDEN_TOPIC, TOPIC, TRANSACTIONAL_ID, Principal
from .world import World

LISTENER: Final = "SASL_PLAINTEXT"
ACLS_A_REQUEST: Final = 500
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_CLOSED: Final = ("closed",)
_PATIENCE_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 2.0
"""Kafka's broker learns ACLs from its controller a moment after they are acknowledged."""

_AGAIN: Final = re.compile(r"error_code=(14|15|19)\b")
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_ENOUGH_REPLICAS.  With these
Kafka tells one of two clients to repeat that send batches or offsets of one producer at once.
"""
_TRIES: Final = 10

Answers = dict[tuple[str, int, str], Shown]
"""By API, version and label."""


def settings(port: int, users: Iterable[Principal]) -> dict[str, str]:
    """Return settings under Kafka's names, for either broker."""
    names = [ADMIN, *(each.name for each in users)]
    login = " ".join(f'user_{each}="{each}"' for each in names)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    prefix = f"listener.name.{LISTENER.lower()}"
    return {
        "listeners": f"{LISTENER}://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        f"{LISTENER}:SASL_PLAINTEXT",
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f"{module} required {login};",
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
        "auto.create.topics.enable": "false",
        "log.retention.ms": "-1",  # the records' time stamps are old
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.num.partitions": "8",
    }


class Line(Protocol):
    """A connection to a broker."""

    async def call(self, request: Request) -> Any:
        """Send a request and return its response.

        Raises:
          ConnectionLost: the broker closed the connection.
        """
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


def lines_to(bootstrap: str) -> Callable[[], Awaitable[Line]]:
    """Return a function that opens connections to host:port."""
    return partial(connect, bootstrap)


async def _logged_in(connection: Line, user: str) -> Line:
    """Log in as a user whose password is its name."""
    await connection.call(Request("SaslHandshake", 1, sha.SaslHandshakeRequest("PLAIN")))
    token = f"\0{user}\0{user}".encode()
    answer = await connection.call(
        Request("SaslAuthenticate", 2, sau.SaslAuthenticateRequest(token))
    )
    if answer.error_code:
        raise ConnectionLost(f"{user}: {answer.error_message}")
    return connection


class Side:
    """A running broker.  open_line: opens a connection."""

    def __init__(self, open_line: Callable[[], Awaitable[Line]]) -> None:
        self._open_line = open_line
        self._ids: dict[bytes, str] = {}
        self._questions: list[Question] = []

    async def _login(self, user: str) -> Line:
        return await _logged_in(await self._open_line(), user)

    async def prepare(self, users: Sequence[Principal]) -> None:
        """Create the topics and all ACLs."""
        admin = await self._login(ADMIN)
        topics = [ct.CreatableTopic(each, 1, 1) for each in (TOPIC, HIDDEN_TOPIC)]
        await admin.call(Request("CreateTopics", 5, ct.CreateTopicsRequest(topics, 30_000)))
        acls = [acl for each in users for acl in each.acls]
        for first in range(0, len(acls), ACLS_A_REQUEST):
            await _create(admin, acls[first : first + ACLS_A_REQUEST])
        await trio.sleep(_SETTLE_SECONDS)
        asked = [md.MetadataRequestTopic(name=each) for each in (TOPIC, HIDDEN_TOPIC)]
        found = await admin.call(Request("Metadata", 12, md.MetadataRequest(asked)))
        names = {each.name: each.topic_id for each in found.topics}
        self._ids = {topic_id: name for name, topic_id in names.items()}
        records = [Record(0, 1, None, b"acl")]
        batch = build_batch(records)
        # No producer has this id, so brokers refuse the batch, and it adds nothing to a
        # transaction.
        transactional = build_batch(
            records, attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0
        )
        await _make_group(admin)
        world = World(names, found.brokers[0].node_id, batch, transactional)
        self._questions = list(questions(world))

    async def answers(self, user: str) -> Answers:
        """Ask everything as one user."""
        found: Answers = {}
        connection = await self._login(user)
        for label, request in self._questions:
            try:
                answer = await self._answer(connection, request)
            except ConnectionLost:
                answer = _CLOSED
                connection = await self._login(user)
            found[request.api, request.version, label] = answer
        await connection.close()
        return found

    async def _answer(self, connection: Line, request: Request) -> Shown:
        """Return the compared part of an answer; repeat the request after a retriable error, as
        clients do.
        """
        answer: Shown = ()
        for _ in range(_TRIES):
            answer = shown(await connection.call(request), self._ids)
            if not any(map(_AGAIN.search, answer)):
                break
        return answer


async def _make_group(admin: Line) -> None:
    """Commit an offset, as soon as the broker has its topic of offsets."""
    place = oc.OffsetCommitRequestTopic(TOPIC, ZERO_UUID, [oc.OffsetCommitRequestPartition(0, 1)])
    request = Request("OffsetCommit", 8, oc.OffsetCommitRequest(GROUP, topics=[place]))
    find = Request("FindCoordinator", 3, fc.FindCoordinatorRequest(GROUP, 0))
    find_id = Request("FindCoordinator", 3, fc.FindCoordinatorRequest(TRANSACTIONAL_ID, 1))
    with trio.fail_after(_PATIENCE_SECONDS):
        while True:
            answers = [await admin.call(each) for each in (find, find_id, request)]
            codes = [answers[0].error_code, answers[1].error_code]
            if not any((*codes, answers[2].topics[0].partitions[0].error_code)):
                return
            await trio.sleep(0.5)


async def _create(admin: Line, acls: Sequence[Acl]) -> None:
    creations = [
        ca.AclCreation(
            each.resource_type,
            each.name,
            each.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission,
        )
        for each in acls
    ]
    answer = await admin.call(Request("CreateAcls", 3, ca.CreateAclsRequest(creations)))
    wrong = [each for each in answer.results if each.error_code]
    if wrong:
        raise ConnectionLost(f"no ACL: {wrong[0]}")
