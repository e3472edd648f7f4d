"""Transactional copiers under kill -9 of gateways and copiers: is the output the input?

    compat-tests/run copies --minutes 10

Three gateways in three zones on PostgreSQL and SeaweedFS.  Each round writes the input, then three
copiers with transactional ids of their own copy it.  About every --every seconds one gateway and
one copier are killed and started again.  Rounds with assigned partitions and with a group alternate
until the time is up.  At the end of a round the committed output must be the input, exactly once,
in the order of each partition.  Prints figures; exit status 1 if it is not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faults.attendance import Say, clock
from faults.world import World, running_world
from harness.places import WORK
from runner.options import option
from runner.result import Result, say
from runner.shared import Kept, Seeded

from exactly_once.clients import Client
from exactly_once.copiers import COPIERS, MODES, Copying
from exactly_once.copies import FOREIGN, judge_copies, number_of, value_of
from exactly_once.copy_report import Figures, Round, table, text_of
from exactly_once.ended import ended_transactions
from exactly_once.hurting import Dealt, Hurting
from exactly_once.kills import Blow, blows
from exactly_once.progress import CopierLife, gaps, middle, stalls
from exactly_once.topics import committed, create_topics, read, wait_until_settled, write

COPIER_COUNT = 3
GROUP_PARTITIONS = 6
STUCK_SECONDS = 150.0
LOOK_SECONDS = 1.0
SETTLE_SECONDS = 60.0
ALL_MODES = ("assigned", "group")
KILLED = ("gateways", "copiers")


@dataclass(frozen=True, kw_only=True)
class Copied:
    """The input of a round, and transactions on it."""

    messages: int = option(100_000, "of a round")
    message_bytes: int = 750
    transaction_size: int = option(100, "in messages")
    timeout_ms: int = option(10_000, "of a transaction")


@dataclass(frozen=True)
class Options(Copied, Seeded, Kept):
    """The options."""

    minutes: float = 10.0
    client: str = option("java", choices=COPIERS)
    modes: Sequence[str] = option((), "by comma; all that the client has", choices=ALL_MODES)
    every_seconds: float = option(10.0, "seconds between kills; 0: none", flag="--every")
    kill: Sequence[str] = option(KILLED, "by comma", choices=KILLED)
    aborts: bool = option(True, "copiers abort by chance")


class CopyRound:
    """One round: an input, three copiers, and kills."""

    def __init__(
        self, world: World, options: Options, number: int, logs: Path, say: Say, until: float
    ) -> None:
        self._world = world
        self._options = options
        self._say = say
        self._until = until
        self._name = f"round-{number}"
        self.mode = options.modes[number % len(options.modes)]
        is_group = self.mode == "group"
        self._partitions = GROUP_PARTITIONS if is_group else COPIER_COUNT
        self._copying = Copying(
            world.bootstrap,
            f"input-{number}",
            f"output-{number}",
            f"copiers-{number}",
            options.transaction_size,
            options.timeout_ms,
            is_group,
            options.aborts,
            self.ids_of(number),
        )
        program = COPIERS[options.client](logs)
        self._copiers = [
            Client(
                f"copier-{each}",
                [*program, *self._copying.words(each)],
                logs / f"{self._name}-copier-{each}.log",
                CopierLife,
            )
            for each in range(COPIER_COUNT)
        ]
        self._hurting = Hurting()
        self.problems: list[str] = []

    @staticmethod
    def ids_of(_number: int) -> str:
        """Return the prefix of the transactional ids of a round."""
        return "copier"

    def run(self) -> Round:
        """Run the round."""
        self._write()
        began = time.monotonic()
        for each in self._copiers:
            each.start()
        self._begin_to_hurt()
        try:
            self._wait_until_copied()
        finally:
            self._hurting.end()
            for each in self._copiers:
                each.close()
        self._hurting.check()
        return self._judged(round(time.monotonic() - began, 1))

    def _write(self) -> None:
        topics = (self._copying.source, self._copying.target)
        create_topics(self._world.bootstrap, dict.fromkeys(topics, self._partitions))
        count, size = self._options.messages, self._options.message_bytes
        records = ((each % self._partitions, None, value_of(each, size)) for each in range(count))
        write(self._world.bootstrap, self._copying.source, records)
        self._note(f"{self.mode}: {count} messages written")

    def _begin_to_hurt(self) -> None:
        seed, every = f"{self._options.seed} {self._name}", self._options.every_seconds
        if every and "gateways" in self._options.kill:
            plan = blows(f"{seed} gateways", sorted(self._world.gateways), every)
            self._hurting.begin("gateway", plan, self._kill_gateway)
        if every and "copiers" in self._options.kill:
            plan = blows(f"{seed} copiers", range(COPIER_COUNT), every)
            self._hurting.begin("copier", plan, self._kill_copier)

    def _kill_gateway(self, blow: Blow, stop: threading.Event) -> None:
        self._world.kill_gateway(blow.who)
        stop.wait(blow.seconds)
        self._world.start_gateway(blow.who)

    def _kill_copier(self, blow: Blow, _stop: threading.Event) -> None:
        self._copiers[blow.who].kill()

    def _wait_until_copied(self) -> None:
        """Wait until all is copied, or until nothing moves.  End the kills once the time is up."""
        last, moved_at, said_at = -1, time.monotonic(), 0.0
        while True:
            self._hurting.check()
            for each in self._copiers:
                self._keep(each)
            done = self._copied()
            now = time.monotonic()
            if done >= self._options.messages:
                return
            if now > self._until:
                self._hurting.end()
            if done != last:
                last, moved_at = done, now
            if now - moved_at > STUCK_SECONDS:
                self.problems.append(f"{self._name}: stuck at {done} for {STUCK_SECONDS:.0f} s")
                return
            if now - said_at > 10:
                said_at = now
                self._note(f"{done} copied, {len(self._hurting.dealt)} killed")
            time.sleep(LOOK_SECONDS)

    def _keep(self, copier: Client[CopierLife]) -> None:
        """Start a copier again, unless it has copied its whole partition."""
        has_ended_well = copier.lives[-1].code == 0
        copier.is_wanted = self._copying.is_group or not has_ended_well
        copier.keep()

    def _copied(self) -> int:
        copying = self._copying
        offsets = committed(self._world.bootstrap, copying.group, copying.source, self._partitions)
        return sum(offsets.values())

    def _judged(self, seconds: float) -> Round:
        bootstrap, target = self._world.bootstrap, self._copying.target
        if not wait_until_settled(bootstrap, target, self._partitions, SETTLE_SECONDS):
            self.problems.append(f"{self._name}: a transaction stays open")
        found: dict[int, list[int]] = {each: [] for each in range(self._partitions)}
        size = self._options.message_bytes
        count = read(
            bootstrap,
            target,
            self._partitions,
            lambda where, _key, value: found[where].append(number_of(value, size)),
        )
        foreign = 0

        def check(_where: int, _key: bytes | None, value: bytes | None) -> None:
            nonlocal foreign
            foreign += number_of(value, size) == FOREIGN

        everything = read(bootstrap, target, self._partitions, check, isolation="read_uncommitted")
        if foreign:
            self.problems.append(f"{self._name}: {foreign} uncommitted records were never written")
        return self._figures(found, seconds, everything - count)

    def _figures(self, found: dict[int, list[int]], seconds: float, aborted: int) -> Round:
        lives = [life for each in self._copiers for life in each.lives]
        dealt: list[Dealt] = self._hurting.dealt
        waited = stalls(lives, self._hurting.times("gateway"))
        between = gaps(lives)
        done = Round(
            self.mode,
            self._options.messages,
            seconds,
            aborted,
            sum(each.target == "gateway" for each in dealt),
            sum(each.target == "copier" for each in dealt),
            sum(each.failed for each in lives),
            middle(between),
            max(between, default=0),
            middle(waited),
            max(waited, default=0),
            self._hurting.longest_ms("gateway"),
            judge_copies(found, self._options.messages, self._partitions),
        )
        self._note(text_of(done))
        return done

    def _note(self, text: str) -> None:
        self._say(f"{clock()} {self._name}: {text}")


def copy_run(options: Options, folder: Path, say: Say) -> Figures:
    """Run it in an empty folder; its logs stay there."""
    figures = Figures(options.client, options.seed)
    with running_world(folder) as world:
        began = time.monotonic()
        until = began + options.minutes * 60
        while time.monotonic() < until:
            number = len(figures.rounds)
            each = CopyRound(world, options, number, folder / "logs", say, until)
            figures.rounds.append(each.run())
            figures.problems += each.problems
            if figures.problems:
                break
        figures.minutes = round((time.monotonic() - began) / 60, 1)
        figures.transactions = ended_transactions(
            world.gateways[1].texts["metadata.log"], folder / "logs" / "transactions.txt"
        )
    return figures


def main(options: Options) -> Result:
    """Run it."""
    COPIERS[options.client](WORK)  # fail at once if a tool is missing
    if not options.modes:
        options = replace(options, modes=MODES[options.client])
    with options.work_folder("copies") as folder:
        figures = copy_run(options, folder, say)
    return Result(figures.is_clean, table(figures), figures)
