"""The differences between two brokers' facts of the same cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mutated_batches.asking import Facts
from mutated_batches.cases import Case, cases


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact that differs.  None: a side does not have this fact."""

    case: Case
    name: str
    kafka: Any
    gateway: Any

    def __str__(self) -> str:
        return f"{self.case}\n    {self.name}: Kafka {self.kafka}, gateway {self.gateway}"


def compare(kafka: Mapping[int, Facts], gateway: Mapping[int, Facts]) -> Iterator[Difference]:
    """Yield the differences of all cases for which the gateway has facts."""
    for case in cases():
        if case.number in gateway:
            yield from differing(case, kafka[case.number], gateway[case.number])


def differing(case: Case, kafka: Facts, gateway: Facts) -> Iterator[Difference]:
    """Yield the facts of a case that differ.  If the codes differ, yield only the codes."""
    for name in dict.fromkeys([*kafka, *gateway]):
        one, other = kafka.get(name), gateway.get(name)
        if one != other:
            yield Difference(case, name, one, other)
            if name == "code":
                return
