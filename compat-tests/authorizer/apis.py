"""Random DescribeAcls, CreateAcls and DeleteAcls to Apache Kafka and to our handlers: all answers
compared, with their texts.

    compat-tests/run authorizer-apis [--requests N]

The order of ACLs in an answer is not compared: Kafka's is that of a hash table.  Two kinds of
requests are left out.  If an enum value is 0, Kafka closes the connection.  If an ACL has the value
ANY or MATCH, Kafka answers UNKNOWN_SERVER_ERROR to the whole request.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import trio
from harness.broker import running
from runner.result import Result
from runner.shared import Seeded
from transactions.differential.wire import Connection, Request

from tests.worlds.admin_world import admin_world
from tidegate_coordination.events.metadata_versions import SECURITY
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidegate_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidegate_protocol.messages.describe_acls import DescribeAclsRequest

SHOWN: Final = 10
ON: Final = {"authorizer.class.name": "on"}
_NAMES: Final = ("a", "ab", "abc", "b", "*", "kafka-cluster", "é")
_PRINCIPALS: Final = ("User:a", "User:*", "Group:b", ":")
_HOSTS: Final = ("*", "10.0.0.1", "10.0.0.0/8", "not a host", "")
_TYPES: Final = (*range(2, 8), 2, 2, 2, 3)
_NO_NUMBERS: Final = (8, 16, 99, -1)
ODD_SHARE: Final = 0.06
LATE_SECONDS: Final = 1.0
"""Kafka acknowledges an ACL before its broker knows it."""


def _number(rng: Random, usual: tuple[int, ...], highest: int) -> int:
    if rng.random() < ODD_SHARE:
        return rng.choice([each for each in _NO_NUMBERS if not 0 <= each <= highest])
    return rng.choice(usual)


def _row(rng: Random) -> AclCreation:
    return AclCreation(
        _number(rng, _TYPES, 7),
        "" if rng.random() < ODD_SHARE else rng.choice(_NAMES),
        _number(rng, (3, 4), 4),
        "nobody" if rng.random() < ODD_SHARE else rng.choice(_PRINCIPALS),
        rng.choice(_HOSTS),
        _number(rng, tuple(range(2, 16)), 15),
        _number(rng, (2, 3), 3),
    )


def _filter(rng: Random) -> tuple[Any, ...]:
    return (
        _number(rng, (1, 1, *_TYPES), 7),
        rng.choice((None, None, "", "abcd", *_NAMES)),
        _number(rng, (1, 2, 2, 3, 4), 4),
        rng.choice((None, None, None, "nobody", *_PRINCIPALS)),
        rng.choice((None, None, None, *_HOSTS)),
        _number(rng, (1, 1, 1, 2, 3, 8), 15),
        _number(rng, (1, 1, 2, 3), 3),
    )


def drawn(rng: Random) -> Request:
    """Return a request."""
    version, draw = rng.randint(1, 3), rng.random()
    if draw < 0.4:
        rows = [_row(rng) for _ in range(rng.randint(0, 6))]
        return Request("CreateAcls", version, CreateAclsRequest(rows + rows[:1]))
    if draw < 0.8:
        return Request("DescribeAcls", version, DescribeAclsRequest(*_filter(rng)))
    filters = [DeleteAclsFilter(*_filter(rng)) for _ in range(rng.randint(0, 3))]
    return Request("DeleteAcls", version, DeleteAclsRequest(filters))


def seen(answer: Any) -> object:
    """Return the compared part of an answer."""
    if hasattr(answer, "results"):
        return [(each.error_code, each.error_message) for each in answer.results]
    if hasattr(answer, "resources"):
        rows = [
            (each.resource_type, each.resource_name, each.pattern_type, _fields(row))
            for each in answer.resources
            for row in each.acls
        ]
        return answer.error_code, answer.error_message, sorted(rows)
    return [
        (each.error_code, each.error_message, sorted(map(_fields, each.matching_acls)))
        for each in answer.filter_results
    ]


def _fields(row: Any) -> tuple[Any, ...]:
    return tuple((name, str(getattr(row, name))) for name in type(row).__slots__)


async def compared(host: str, port: int, seed: int, count: int) -> int:
    """Return how many answers differ."""
    rng, different = Random(seed), 0
    stream = await trio.open_tcp_stream(host, port)
    async with stream, admin_world(ON) as [gateway]:
        kafka = Connection(stream)
        await gateway.coordinator.propose(Renew(SECURITY))
        assert not await gateway.coordinator.propose(SetMetadataVersion(SECURITY))
        for number in range(count):
            request = drawn(rng)
            theirs = seen(await kafka.call(request))
            ours = seen(await gateway.ask(request.body, request.version))
            if request.api == "DescribeAcls" and theirs != ours:
                await trio.sleep(LATE_SECONDS)
                theirs = seen(await kafka.call(request))
            if theirs != ours:
                different += 1
                if different <= SHOWN:
                    print(f"request {number}: {request}\n  Kafka {theirs}\n  here  {ours}")
    return different


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    requests: int = 5_000


def main(options: Options) -> Result:
    """Run it."""
    with running("kafka") as broker:
        host, port = broker.bootstrap.split(":")
        found = trio.run(compared, host, int(port), options.seed, options.requests)
    return Result(not found, f"{options.requests} requests, {found} answers differ")
