"""Transactional copiers continue while their topics, group and transactional ids move from Kafka.

    compat-tests/run moving-units --rounds 2

Three gateways on PostgreSQL and SeaweedFS, and Apache Kafka as the source.  A round has an input
and an output topic at Kafka.  Three copiers read, write and commit through the gateways, which
forward all their requests.  Meanwhile `tidegate link switch` moves both topics, the copiers' group
and their transactional ids at once.  At the end the committed output must be the input, exactly
once, in the order of each partition.  Rounds take the clients in turn.  With --hurt gateways and
copiers get kill -9.

The exit status is 1 if the output is wrong.  Without --hurt it is also 1 if a copier failed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from exactly_once.copiers import COPIERS, MODES
from exactly_once.copies import value_of
from exactly_once.copy_report import Figures, table
from exactly_once.copy_run import CopyRound, Options
from exactly_once.progress import stall_after
from exactly_once.topics import create_topics, write
from faults.attendance import Say, clock, now_ms
from faults.world import World, running_world
from harness import kafka_cluster
from harness.places import WORK
from runner.options import option
from runner.result import Result, say
from runner.shared import FromKafka, Kept, Seeded

from migration.moving.switch import SETTINGS
from migration.tidegate_command import LINK_SECONDS, run_link

IDS: Final = "{}-*"
TRIES: Final = 20
AGAIN_SECONDS: Final = 3.0
COPY_SECONDS: Final = 120.0
AFTER_MS: Final = 3_000
BEGIN_SHARE: Final = 0.25
"""The part of the input that is copied before the switch begins."""


class UnitRound(CopyRound):
    """One round.  kafka: the source.  lifted: the reasons why tries of the switch failed."""

    def __init__(
        self,
        world: World,
        kafka: kafka_cluster.KafkaCluster,
        options: Options,
        number: int,
        logs: Path,
        say: Say,
    ) -> None:
        super().__init__(world, options, number, logs, say, time.monotonic() + LINK_SECONDS)
        self._kafka = kafka
        self._link_name = f"unit-{number}"
        self._moving = threading.Thread(target=self._move, daemon=True)
        self.stalls_ms: list[int] = []
        self.lifted: list[str] = []
        self._moved_ms: tuple[int, int] | None = None

    @property
    def is_moved(self) -> bool:
        """Whether the unit is at the gateways."""
        return self._moved_ms is not None

    @staticmethod
    def ids_of(number: int) -> str:
        """Return the prefix of the unit's ids.

        Each round has another one, since the ids of earlier rounds have moved to the gateways.
        """
        return f"unit-{number}"

    def _link(self, *words: str) -> Any:
        return run_link(self._world.database, *words, may_fail=True)

    def _write(self) -> None:
        copying, bootstrap = self._copying, self._kafka.bootstrap
        names = (copying.source, copying.target)
        partitions = dict.fromkeys(names, self._partitions)
        create_topics(bootstrap, partitions, len(self._kafka.nodes))
        count, size = self._options.messages, self._options.message_bytes
        records = ((each % self._partitions, None, value_of(each, size)) for each in range(count))
        write(bootstrap, copying.source, records)
        words = [word for name in names for word in ("--topics", name)]
        words += [
            "--forward-writes",
            "--groups",
            copying.group,
            "--transactional-ids",
            IDS.format(copying.ids),
        ]
        self._link("add", self._link_name, "--bootstrap-servers", bootstrap, *words)
        self._await_copies()
        self._note(f"{self.mode}: {count} messages written and mirrored")

    def _await_copies(self) -> None:
        deadline = time.monotonic() + COPY_SECONDS
        while time.monotonic() < deadline:
            status = self._link("status", self._link_name)
            copies = status.get("copies", ())
            if len(copies) == 2 and all(each["behind"] == 0 for each in copies):
                return
            time.sleep(0.5)
        raise TimeoutError(f"{self._name}: the topics are not mirrored: {status}")

    def _begin_to_hurt(self) -> None:
        super()._begin_to_hurt()
        self._moving.start()

    def _move(self) -> None:
        """Move the unit once BEGIN_SHARE is copied, and try again if the switch is refused."""
        copying = self._copying
        while self._copied() < BEGIN_SHARE * self._options.messages:
            time.sleep(0.2)
        words = [copying.source, copying.target, "--transactional-ids", IDS.format(copying.ids)]
        words += ["--groups", copying.group, "--yes"]
        for _ in range(TRIES):
            begun_ms = now_ms()
            told = self._link("switch", self._link_name, *words)
            if not told["reason"]:
                self._moved_ms = begun_ms, now_ms()
                self._note(f"moved after {told['seconds']:.2f} s without transactions")
                return
            self.lifted.append(told["reason"])
            self._note(f"not moved: {told['reason']}")
            time.sleep(AGAIN_SECONDS)

    def _judged(self, seconds: float) -> Any:
        self._moving.join(LINK_SECONDS)
        if self._moved_ms is None:
            self.problems.append(f"{self._name}: the unit was not moved: {self.lifted[-1:]}")
        else:
            begun_ms, ended_ms = self._moved_ms
            lives = [life for each in self._copiers for life in each.lives]
            found = [stall_after(each, begun_ms, ended_ms + AFTER_MS) for each in lives]
            self.stalls_ms += [each for each in found if each is not None]
            longest = max(self.stalls_ms, default=0)
            self._note(f"longest time between two commits meanwhile: {longest} ms")
        done = super()._judged(seconds)
        failed = sum(life.failed for each in self._copiers for life in each.lives)
        if failed and not self._options.every_seconds:
            self.problems.append(f"{self._name}: copiers failed {failed} times")
        self._link("finish", self._link_name, "--yes")
        self._link("remove", self._link_name, "--yes")
        return done


@dataclass(frozen=True)
class UnitOptions(Seeded, Kept, FromKafka):
    """The options."""

    rounds: int = 4
    clients: Sequence[str] = option(tuple(COPIERS), "by comma", choices=COPIERS)
    messages: int = option(60_000, "of a round")
    is_hurt: bool = option(False, "kill -9 of gateways and copiers", flag="--hurt")
    aborts: bool = option(False, "copiers abort by chance")


def unit_run(given: UnitOptions, folder: Path, say: Say) -> UnitMoves:
    """Do all rounds in an empty folder; its logs stay there."""
    turns = [(client, mode) for client in given.clients for mode in MODES[client]]
    options = Options(
        minutes=0.0,
        seed=given.seed,
        messages=given.messages,
        every_seconds=10.0 if given.is_hurt else 0.0,
        aborts=given.aborts,
    )
    result = UnitMoves(Figures("all", given.seed))
    with (
        kafka_cluster.running(given.brokers, version=given.kafka) as kafka,
        running_world(folder, more=SETTINGS) as world,
    ):
        for number in range(given.rounds):
            client, mode = turns[number % len(turns)]
            say(f"{clock()} round {number}: {client}")
            chosen = replace(options, client=client, modes=(mode,))
            result.take(UnitRound(world, kafka, chosen, number, folder / "logs", say))
            if result.figures.problems:
                break
    return result


@dataclass(slots=True)
class UnitMoves:
    """The measurements of all rounds.

    moved: the number of units.  stalls_ms: longest times between two commits around each move.
    """

    figures: Figures
    stalls_ms: list[int] = field(default_factory=list)
    lifted: list[str] = field(default_factory=list)
    moved: int = 0

    def take(self, each: UnitRound) -> None:
        """Run a round."""
        self.figures.rounds.append(each.run())
        self.figures.problems += each.problems
        self.stalls_ms = sorted([*self.stalls_ms, *each.stalls_ms])
        self.lifted += each.lifted
        self.moved += each.is_moved

    def text(self) -> str:
        """Return the figures as text."""
        stalls = self.stalls_ms or [0]
        return "\n".join(
            [
                table(self.figures),
                f"{self.moved} units moved, {len(self.lifted)} tries lifted",
                f"between two commits: p50 {stalls[len(stalls) // 2]} ms, at most {stalls[-1]} ms",
                *(self.figures.problems or ["promises kept"]),
            ]
        )


def main(options: UnitOptions) -> Result:
    """Run it."""
    for client in options.clients:
        COPIERS[client](WORK)  # fail at once if a tool is missing
    with options.work_folder("units") as folder:
        found = unit_run(options, folder, say)
    return Result(found.figures.is_clean, found.text(), found.figures)
