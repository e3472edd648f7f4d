"""Records what Apache Kafka answers to a part of the ACL matrix, for the suite.

compat-tests/run acls-record
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
from harness.broker import running
from harness.process import free_ports
from runner.result import Result
from runner.shared import NoOptions

from acls.answers import Shown
from acls.rights import ADMIN, SHAPES, Principal, principals
from acls.side import Answers, Side, lines_to, settings

FACTS: Final = Path(__file__).resolve().parent.parent / "expected" / "acl_matrix.json"
EVERY: Final = 24


class Facts(msgspec.Struct):
    """answers: all distinct ones.  users: by name, the index in `answers` for each question."""

    answers: list[Shown]
    users: dict[str, list[int]]


def recorded_users() -> list[Principal]:
    """Return the users whose answers are recorded, without the super user.

    They are every 24th user, and for each right the user that has all rights but this one.  Only
    the answers to this user show that the broker asks for the right.
    """
    lacking = f": {SHAPES[0]}, with all others"
    return [
        each
        for number, each in enumerate(principals())
        if not number % EVERY or each.about.endswith(lacking)
    ]


async def _asked(side: Side, users: list[Principal]) -> dict[str, Answers]:
    await side.prepare(users)
    names = [ADMIN, *(each.name for each in users)]
    return {name: await side.answers(name) for name in names}


def facts_of(found: dict[str, Answers]) -> Facts:
    """Return the answers of all users."""
    numbers: dict[Shown, int] = {}

    def numbered(answers: Iterable[Shown]) -> list[int]:
        return [numbers.setdefault(each, len(numbers)) for each in answers]

    users = {name: numbered(answers.values()) for name, answers in found.items()}
    return Facts(list(numbers), users)


def main(options: NoOptions) -> Result:
    """Record."""
    users = recorded_users()
    [port] = free_ports(1)
    with running("kafka", settings(port, users)):
        found: dict[str, Any] = trio.run(_asked, Side(lines_to(f"127.0.0.1:{port}")), users)
    FACTS.write_bytes(msgspec.json.encode(facts_of(found)) + b"\n")
    return Result(is_good=True)
