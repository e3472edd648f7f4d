"""Compares the answers and the visible state of two brokers.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import steps as st
from .seen import Seen

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs after a step.  path: its place in the answer, or in the state."""

    script: st.Script
    index: int
    path: str
    kafka: object
    gateway: object

    @property
    def step(self) -> st.Step:
        """Return the step after which it was seen; for a Repeat, the repeated step."""
        return self.script.cause(self.index)

    @property
    def steps(self) -> tuple[st.Step, ...]:
        """Return all steps up to this one."""
        return tuple(map(self.script.cause, range(self.index + 1)))

    def __str__(self) -> str:
        what = f"script {self.script.number}, step {self.index}, {self.path}"
        return f"{what}: Kafka {self.kafka}, gateway {self.gateway}"


def differing(kafka: Seen, gateway: Seen) -> Iterator[tuple[str, object, object]]:
    """Yield path and both values of each difference."""
    for path in dict.fromkeys((*kafka, *gateway)):
        theirs, ours = kafka.get(path, ABSENT), gateway.get(path, ABSENT)
        if theirs != ours:
            yield path, theirs, ours


def compare(script: st.Script, index: int, kafka: Seen, gateway: Seen) -> list[Difference]:
    """Return all differences after a step."""
    return [Difference(script, index, *each) for each in differing(kafka, gateway)]
