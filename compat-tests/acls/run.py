"""The ACL matrix: every API in every version, asked with all kinds of rights, here and at Kafka.

    compat-tests/run acls

Every user sends the same requests to both brokers.  The answers are compared by names, codes and
bit sets.  If each broker gives a user the same answer to a request as its own super user, both
allow the request.  Then it does not matter in what else the two answers differ.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import trio
from harness.broker import running
from harness.process import free_ports
from runner.options import option
from runner.result import Result

from acls.rights import ADMIN, Principal, principals
from acls.side import Answers, Side, lines_to, settings

AT_ONCE: Final = 4
SHOWN: Final = 20


class Difference(NamedTuple):
    """An answer in which the brokers differ."""

    about: str
    api: str
    version: int
    label: str
    kafka: tuple[str, ...]
    gateway: tuple[str, ...]


class Matrix:
    """All answers of both brokers."""

    def __init__(self, kafka: Side, gateway: Side, users: Sequence[Principal]) -> None:
        self.differences: list[Difference] = []
        self.questions = 0
        self._sides = kafka, gateway
        self._users = users
        self._allowed: list[Answers] = []

    async def ask(self) -> None:
        """Send every request as every principal."""
        for each in self._sides:
            await each.prepare(self._users)
        self._allowed = [await each.answers(ADMIN) for each in self._sides]
        left = iter(self._users)
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(self._ask_some, left)

    async def _ask_some(self, left: Iterator[Principal]) -> None:
        for user in left:
            kafka, gateway = [await each.answers(user.name) for each in self._sides]
            self.questions += len(kafka)
            for key, expected in kafka.items():
                found = gateway[key]
                both_allow = all(
                    allowed[key] == answer
                    for allowed, answer in zip(self._allowed, (expected, found), strict=True)
                )
                if expected != found and not both_allow:
                    self.differences.append(Difference(user.about, *key, expected, found))


def report(matrix: Matrix, seconds: float) -> None:
    """Print the findings."""
    kinds: Counter[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = Counter()
    examples: dict[object, Difference] = {}
    for each in matrix.differences:
        theirs, ours = set(each.kafka), set(each.gateway)
        kind = each.api, each.label, tuple(sorted(theirs - ours)), tuple(sorted(ours - theirs))
        kinds[kind] += 1
        examples.setdefault(kind, each)
    for kind, count in kinds.most_common(SHOWN):
        api, label, kafka, gateway = kind
        each = examples[kind]
        print(f"{count} x {api} v{each.version} ({label}), such as {each.about}")
        print(f"    Kafka   {kafka}\n    gateway {gateway}")
    print(
        f"{matrix.questions} questions, {len(matrix.differences)} differ in {len(kinds)} ways,"
        f" {seconds:.0f} s"
    )


@dataclass(frozen=True)
class Options:
    """The options."""

    every: int = option(1, "only every Nth user")


def main(options: Options) -> Result:
    """Run it."""
    users = list(principals())[:: options.every]
    ports = free_ports(2)
    with (
        running("kafka", settings(ports[0], users)),
        running("tidegate", settings(ports[1], users)),
    ):
        kafka, gateway = [Side(lines_to(f"127.0.0.1:{each}")) for each in ports]
        matrix = Matrix(kafka, gateway, users)
        begun = time.monotonic()
        trio.run(matrix.ask)
        report(matrix, time.monotonic() - begun)
    return Result(not matrix.differences)
