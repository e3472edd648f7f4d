"""Waits for transactional clients under faults, and judges their histories at the end."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from faults.attendance import RECOVERY_SECONDS, Attendance, Say, since
from faults.driver import Driver
from faults.stalls import Happened
from faults.world import World

from histories import clients
from histories.checks import Wait, waits
from histories.evidence import Evidence, Window
from histories.history import History
from histories.judge import Verdict, judge
from histories.topics import places

WRITERS = ("a1", "a2", "m1", "m2")
ENDS_AT_FLUSH = ("a1", "a2")
ENDS_AT_STOP = ("m1", "m2")
LAST_SECONDS = 3.0
LOOK_SECONDS = 1.0
_BUGS = ("could not decide a proposal", "internal error")
_HURTING = ("partition clients", "ends", "client")


@dataclass(slots=True)
class Ends:
    """How transactions of a family ended, and the errors that its applications got."""

    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Judged:
    """The counts of all clients, and the errors found.

    records: how many the topics have, by isolation level.  read: records that all readers got.
    longest_wait: for a committed value, without the time of faults.  segments: the number that the
    pipeline published.
    """

    ends: dict[str, Ends] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    orders: int = 0
    read: int = 0
    longest_wait: Wait = field(default_factory=Wait)
    segments: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return self.verdict.is_clean and not self.problems


class HistoryWatch(Attendance):
    """The clients of a run, and the pipeline beside them."""

    def __init__(
        self,
        world: World,
        launcher: clients.Launcher,
        histories: Sequence[History],
        bank: History,
        driver: Driver,
        say: Say,
        *,
        life: int = 0,
    ) -> None:
        super().__init__(world, say)
        self.ledgers: Sequence[History] = histories
        self._launcher = launcher
        self._bank = bank
        self._driver = driver
        self._lives = [life] * len(histories)
        self.families = [
            launcher.start(each, number, life) for number, each in enumerate(histories, start=1)
        ]

    def kill_client(self, number: int, seconds: float) -> None:
        """kill -9 a family's program, and start it again."""
        at = (number - 1) % len(self.families)
        self.families[at].kill()
        gone = self.families.pop(at)
        self.wait(seconds)
        self._lives[at] += 1
        self.families.insert(at, self._launcher.start(gone.ledger, at + 1, self._lives[at]))

    def pause_client(self, number: int, seconds: float) -> None:
        """Stop a family's program for a while."""
        family = self.families[(number - 1) % len(self.families)]
        family.signal(signal.SIGSTOP)
        self.wait(seconds)
        family.signal(signal.SIGCONT)

    def close(self) -> None:
        """End all clients, whatever happened."""
        for family in self.families:
            with suppress(OSError, ValueError):
                family.close()

    def counts(self) -> str:
        """See Attendance."""
        return ", ".join(
            f"{each.name} {sum(map(len, each.acknowledged_at.values()))} committed {each.read} read"
            for each in self.ledgers
        )

    def stuck(self, since_ms: int) -> list[str]:
        """See Attendance."""
        found: list[str] = []
        for each in self.ledgers:
            writers = [f"{each.name}-{writer}" for writer in WRITERS]
            found += [name for name in writers if not since(_of(each, name), since_ms)]
            where = [p for p in places() if not since(each.consumed_at.get(p), since_ms)]
            found += [f"{each.name} reading {where}"] if where else []
        return found

    def check_clients(self) -> None:
        """See Attendance."""
        for family in self.families:
            family.check()
        self._driver.check()

    def finish(self, happened: Sequence[Happened], more: Sequence[History] = ()) -> Judged:
        """End the clients, read all records and judge; more: histories of other clients."""
        bootstrap, names = self._world.bootstrap, [each.name for each in self.families]
        self._end("flush", [*ENDS_AT_FLUSH], "orders")
        self._wait_for_orders()
        self._end("stop", [*ENDS_AT_STOP])
        committed, everything = (clients.sweep(bootstrap, level) for level in ("c", "u"))
        ends = {place: max(values, default=-1) + 1 for place, values in committed.items()}
        self.wait_for(lambda: not self._behind(ends), "readers did not come to the end")
        self.wait(LAST_SECONDS)
        for family in self.families:
            family.close()
            self.problems += family.ledger.problems
        orders = {each: clients.orders(bootstrap, each) for each in names}
        histories = [self._bank, *more, *self.ledgers]
        evidence = Evidence(histories, committed, everything, _windows(happened))
        return Judged(
            ends={each.name: _ends(each) for each in self.ledgers},
            records={"committed": _count(committed.values()), "all": _count(everything.values())},
            orders=_count(orders.values()),
            read=sum(each.read for each in histories),
            segments=self._driver.segments,
            longest_wait=max(waits(evidence), default=Wait()),
            verdict=judge(evidence, orders, clients.VERSION_1),
            problems=self.problems,
        )

    def _end(self, word: str, writers: Sequence[str], *others: str) -> None:
        for family in self.families:
            family.tell(word)
        self.wait_for(
            lambda: all(
                {*(f"{each.name}-{writer}" for writer in writers), *others} <= each.ended
                for each in self.ledgers
            ),
            f"writers did not end at `{word}`",
        )

    def _wait_for_orders(self) -> None:
        """Wait until all orders are taken, or until none was taken for RECOVERY_SECONDS."""
        for name in [each.name for each in self.families]:
            orders = clients.OrdersLeft(self._world.bootstrap, name)
            left, patience = orders.count(), RECOVERY_SECONDS
            while left and patience > 0:
                self.wait(LOOK_SECONDS)
                before, left = left, orders.count()
                patience = RECOVERY_SECONDS if left < before else patience - LOOK_SECONDS
            orders.close()
            if left:
                self.problems.append(f"{name}: {left} orders were not taken")

    def _behind(self, ends: dict[str, int]) -> list[str]:
        return [
            f"{each.name} {place}"
            for each in self.ledgers
            for place, end in ends.items()
            if each.tail_end(place) < end
        ]


def errors_inside(world: World) -> list[str]:
    """Return errors in the gateways' logs that no fault explains."""
    return [
        f"gateway {each.number} logged: {line[:400]}"
        for each in world.gateways.values()
        for line in each.log.read_text(errors="replace").splitlines()
        if any(f'"event":"{event}"' in line for event in _BUGS)
    ]


def _of(history: History, writer: str) -> Sequence[int] | None:
    return history.acknowledged_at.get(writer)


def _count(rows: Iterable[Sequence[str] | dict[int, str] | set[str]]) -> int:
    return sum(map(len, rows))


def _windows(happened: Sequence[Happened]) -> list[Window]:
    return [
        Window(each.begin_ms, each.end_ms, each.fault.kind.startswith(_HURTING))
        for each in happened
    ]


def _ends(history: History) -> Ends:
    ends = Ends(errors=Counter(each.error for each in history.told))
    for each in history.transactions.values():
        if each.ended_ms < 0:
            ends.unknown += each.asked_ms >= 0
        elif each.committed:
            ends.committed += 1
        else:
            ends.aborted += 1
    return ends
