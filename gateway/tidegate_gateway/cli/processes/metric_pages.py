"""Merges the metrics pages of several processes into one page.  Pure.

Each sample gets the label `process`.  Each family appears once, with one HELP and TYPE for the
samples of all processes: Prometheus' text format demands this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SUPERVISOR: Final = "supervisor"
"""The label of its own samples."""


class SupervisedProcess(NamedTuple):
    """A process and its metrics page.

    text: the page; None if the process gave none.  restarts: since the supervisor's start.
    """

    process: int
    text: str | None
    restarts: int


@dataclass(slots=True)
class _Family:
    head: list[str] = field(default_factory=list[str])
    samples: list[str] = field(default_factory=list[str])


def merged(processes: Iterable[SupervisedProcess], own: str = "") -> str:
    """Return the merged page.  A family has its place in the page of the first process that has it.

    own: the supervisor's page.
    """
    kept = list(processes)
    families: dict[str, _Family] = {}
    for each in kept:
        if each.text is not None:
            _add(families, each.text, str(each.process))
    _add(families, own, SUPERVISOR)
    lines = [line for each in families.values() for line in (*each.head, *each.samples)]
    return "\n".join([*lines, *_own(kept)]) + "\n"


def _add(families: dict[str, _Family], text: str, process: str) -> None:
    family = _Family()
    for line in text.split("\n"):  # splitlines() would also split at characters that names may hold
        if not line.startswith("#"):
            if line:
                family.samples.append(_labelled(line, process))
            continue
        _, kind, name, *_ = line.split(" ", 3)
        if kind == "HELP":
            family = families.setdefault(name, _Family())
        if len(family.head) < 2:  # HELP and TYPE
            family.head.append(line)


def _labelled(sample: str, process: str) -> str:
    name, brace, rest = sample.partition("{")
    if brace and " " not in name:
        return f'{name}{{process="{process}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{process="{process}"}} {value}'


def _own(processes: Iterable[SupervisedProcess]) -> Iterator[str]:
    yield "# HELP tidegate_process_up 1 for a process of this machine that gave its metrics"
    yield "# TYPE tidegate_process_up gauge"
    for each in processes:
        yield f'tidegate_process_up{{process="{each.process}"}} {int(each.text is not None)}'
    yield "# HELP tidegate_process_restarts_total Restarts of processes that had ended"
    yield "# TYPE tidegate_process_restarts_total counter"
    for each in processes:
        yield f'tidegate_process_restarts_total{{process="{each.process}"}} {each.restarts}'
