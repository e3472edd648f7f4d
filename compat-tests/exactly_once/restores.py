"""The lines of an instance of java/CountingApp.java, and whether its stores came back.  No I/O.

CountingApp.java describes the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exactly_once.lives import Life

RUNNING = "RUNNING"
REBALANCING = "REBALANCING"
RESTORE_MS = 60_000  # the longest that a restore may take


@dataclass(slots=True)
class AppLife(Life):
    """A life of an instance.

    restoring: the begin of each restore that has not ended, by (store, partition).  restored: how
    many records each finished restore had.  dump: the last content of its stores that it printed,
    or None.  was_wiped: it began without the files of its former life.  rebalances: when they
    began.
    """

    state: str = ""
    restoring: dict[tuple[str, str], int] = field(default_factory=dict)
    restored: list[int] = field(default_factory=list)
    longest_restore_ms: int = 0
    errors: list[str] = field(default_factory=list)
    dump: dict[str, int] | None = None
    was_wiped: bool = False
    rebalances: list[int] = field(default_factory=list)

    def take(self, now_ms: int, line: str) -> None:
        """Note a line."""
        kind, _, rest = line.strip().partition(" ")
        match kind:
            case "STATE":
                self.state = rest
                if rest == REBALANCING:
                    self.rebalances.append(now_ms)
            case "BEGIN":
                self.restoring[_place(rest)] = now_ms
            case "END" | "STOP":
                self._restored(now_ms, rest, is_whole=kind == "END")
            case "ERROR":
                self.errors.append(rest.partition(" ")[0])
            case "DUMP":
                self.dump = {key: int(count) for key, count in _pairs(rest) if key}

    def _restored(self, now_ms: int, rest: str, *, is_whole: bool) -> None:
        began_ms = self.restoring.pop(_place(rest), now_ms)
        if is_whole:
            self.restored.append(int(rest.split(" ")[2]))
            self.longest_restore_ms = max(self.longest_restore_ms, now_ms - began_ms)


def _place(rest: str) -> tuple[str, str]:
    store, partition, _ = rest.split(" ")
    return store, partition


def _pairs(rest: str) -> list[tuple[str, str]]:
    return [
        (key, count) for key, _, count in (each.partition("=") for each in rest.split(",") if each)
    ]


def unrestored(lives: Iterable[AppLife], now_ms: int) -> list[str]:
    """Return the problems: restores that took too long, ended or not."""
    problems: list[str] = []
    for number, life in enumerate(lives, start=1):
        end_ms = life.ended_ms if life.ended_ms is not None else now_ms
        late = [where for where, began in life.restoring.items() if end_ms - began > RESTORE_MS]
        if late or life.longest_restore_ms > RESTORE_MS:
            problems.append(f"life {number}: restores of {late or 'a store'} took over a minute")
    return problems


def together(lives: Iterable[AppLife]) -> Mapping[str, int] | None:
    """Return the stores of all instances; None if one shows nothing, or two show the same key."""
    found: dict[str, int] = {}
    for life in lives:
        if life.dump is None or life.state != RUNNING or found.keys() & life.dump.keys():
            return None
        found.update(life.dump)
    return found
