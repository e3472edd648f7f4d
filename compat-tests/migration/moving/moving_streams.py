"""A Kafka Streams application with exactly_once_v2 continues while it moves from Kafka.

    compat-tests/run moving-streams --rounds 3

Three gateways on PostgreSQL and SeaweedFS, and Apache Kafka as the source.  A round has an
application of its own.  One instance begins at Kafka, where it makes its internal topics.  Two more
join at the gateways, which forward all their requests.  Then the first instance moves to the
gateways, too.  One `tidegate link switch` moves the input, the output, the repartition topic, the
changelog, the group and the transactional ids, while the application counts.  At the end each key
must have been counted 1, 2, ... once, and stores must be restored from the changelog.  With --hurt
gateways get kill -9.  The exit status is 1 if a count is wrong, if Kafka got records after the
switch, or if a thread of the application ended.  Without --hurt it is also 1 if the application
rebalanced during the switch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from exactly_once.clients import Client
from exactly_once.counting import INSTANCES, PARTITIONS, Counting
from exactly_once.ended import ended_transactions
from exactly_once.hurting import Hurting
from exactly_once.kills import Blow, blows
from exactly_once.restores import RUNNING, AppLife
from exactly_once.streams_report import Figures
from exactly_once.topics import create_topics, ends, read
from faults.attendance import Say, clock, now_ms
from faults.stalls import longest_gap
from faults.world import World, running_world
from harness import install, kafka_cluster
from runner.options import option
from runner.result import Result, say
from runner.shared import FromKafka, Kept, Seeded

from migration.moving.streams_judges import Ends, failures, rebalances, wrong_at_source
from migration.tidegate_command import run_link

KEEPS_UP_SECONDS: Final = 5
"""The output may be so far behind the input."""
TRIES: Final = 20
AGAIN_SECONDS: Final = 3.0
CALM_SECONDS: Final = 5.0
AFTER_MS: Final = 3_000
STUCK_SECONDS: Final = 120.0
HURT_SECONDS: Final = 6.0


@dataclass(frozen=True)
class Options(Seeded, Kept, FromKafka):
    """The options."""

    rounds: int = 3
    rate: int = option(200, "inputs a second")
    is_hurt: bool = option(False, "kill -9 of gateways in the switch", flag="--hurt")


@dataclass(slots=True)
class Moves:
    """The measurements of all rounds.

    stalls_ms: the longest time without output around each switch.

    problems: broken promises.  rebalances: how many began during switches.
    """

    moved: int = 0
    counted: int = 0
    lifted: list[str] = field(default_factory=list)
    stalls_ms: list[int] = field(default_factory=list)
    rebalances: int = 0
    killed: int = 0
    errors: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the figures as text."""
        stalls = sorted(self.stalls_ms) or [0]
        return "\n".join(
            [
                f"{self.moved} applications moved, {len(self.lifted)} tries lifted,"
                f" {self.killed} gateways killed, {self.rebalances} rebalances in switches",
                f"{self.counted} counted; without output: p50 {stalls[len(stalls) // 2]} ms,"
                f" at most {stalls[-1]} ms; errors {self.errors}",
                *(self.problems or ["promises kept"]),
            ]
        )


class StreamsRound:
    """One application, which moves once."""

    def __init__(
        self,
        world: World,
        kafka: kafka_cluster.KafkaCluster,
        options: Options,
        number: int,
        folder: Path,
        say: Say,
    ) -> None:
        self._world = world
        self._kafka = kafka
        self._options = options
        self._say = say
        self._name = f"app-{number}"
        self._app = Counting(self._name, f"words-{number}", f"counts-{number}", folder)
        self._figures = Figures(options.seed)
        self._writer = self._app.writer(world.bootstrap, options.rate, options.seed + number)
        self._reader = self._app.reader(world.bootstrap)
        self._hurting = Hurting()
        self._instances: list[Client[AppLife]] = []
        self._all: list[Client[AppLife]] = []
        self._ends: Ends = {}
        self._seed = f"{options.seed} {self._name}"

    def run(self, moves: Moves) -> None:
        """Run the round."""
        app = self._app
        create_topics(
            self._kafka.bootstrap,
            {app.source: PARTITIONS, app.target: PARTITIONS},
            len(self._kafka.nodes),
        )
        words = [word for name in self._patterns() for word in ("--topics", name)]
        words += ["--forward-writes", "--groups", app.name]
        words += ["--transactional-ids", f"{app.name}-*"]
        self._link("add", app.name, "--bootstrap-servers", self._kafka.bootstrap, *words)
        self._await_copies({app.source, app.target})
        self._writer.start()
        self._reader.start()
        try:
            self._begin()
            self._switch(moves)
            self._wait_more(CALM_SECONDS)
            self._end()
        finally:
            self._hurting.end()
            self._reader.finish()
            for each in self._instances:
                each.close()
        self._judge(moves)
        self._link("finish", app.name, *app.topics, "--yes")
        self._link("remove", app.name, "--yes")

    def _patterns(self) -> tuple[str, ...]:
        return self._app.source, self._app.target, f"{self._app.name}-.*"

    def _begin(self) -> None:
        """Start one instance at Kafka, the others at the gateways; then move the first one."""
        self._start(self._kafka.bootstrap, 0)
        self._wait(lambda: self._reader.total > 0, "nothing is counted at Kafka")
        self._await_copies(set(self._app.topics))
        for number in range(1, INSTANCES):
            self._start(self._world.bootstrap, number)
        self._wait(self._is_running, "the instances at the gateways do not run")
        self._note("two instances joined at the gateways")
        self._instances.pop(0).close()
        self._start(self._world.bootstrap, 0)
        self._wait(self._is_running, "the instance that moved does not run")
        self._wait_more(CALM_SECONDS)
        self._note(f"all are at the gateways; {self._reader.total} counted")

    def _start(self, bootstrap: str, number: int) -> None:
        instance = self._app.instance(bootstrap, number)
        self._instances.append(instance)
        self._all.append(instance)
        instance.start()

    def _is_running(self) -> bool:
        """Whether all instances run, and the output keeps up with the input."""
        is_running = all(each.lives[-1].state == RUNNING for each in self._instances)
        behind = self._writer.written - self._reader.total
        return is_running and behind < KEEPS_UP_SECONDS * self._options.rate

    def _switch(self, moves: Moves) -> None:
        """Move the application, and try again if the switch is refused."""
        app = self._app
        if self._options.is_hurt:
            plan = blows(f"{self._seed} gateways", sorted(self._world.gateways), HURT_SECONDS)
            self._hurting.begin("gateway", plan, self._kill_gateway)
        words = [*app.topics, "--groups", app.name, "--transactional-ids", f"{app.name}-*"]
        for _ in range(TRIES):
            begun_ms = now_ms()
            told = self._link("switch", app.name, *words, "--yes")
            if not told["reason"]:
                break
            moves.lifted.append(told["reason"])
            self._note(f"not moved: {told['reason']}")
            self._wait_more(AGAIN_SECONDS)
        else:
            moves.problems.append(f"{self._name} was not moved: {moves.lifted[-1:]}")
            return
        ended_ms = now_ms()
        moves.moved += 1
        self._note(f"moved after {told['seconds']:.2f} s without transactions")
        self._ends = self._ends_of_source()
        self._wait_more(CALM_SECONDS)
        self._look_back(moves, begun_ms, ended_ms + AFTER_MS)

    def _look_back(self, moves: Moves, begun_ms: int, until_ms: int) -> None:
        stall = longest_gap(self._reader.times, begun_ms, until_ms)
        moves.stalls_ms.append(stall)
        again = rebalances(self._lives(), begun_ms, until_ms)
        moves.rebalances += again
        if again and not self._options.is_hurt:
            moves.problems.append(f"{self._name} rebalanced {again} times in the switch")
        self._note(f"longest time without output meanwhile: {stall} ms")

    def _kill_gateway(self, blow: Blow, stop: threading.Event) -> None:
        self._world.kill_gateway(blow.who)
        stop.wait(blow.seconds)
        self._world.start_gateway(blow.who)

    def _end(self) -> None:
        self._hurting.end()
        self._hurting.check()
        self._writer.finish()
        self._wait(
            lambda: self._is_running() and self._reader.total >= self._writer.written,
            "the output does not reach the input",
        )

    def _judge(self, moves: Moves) -> None:
        figures, bootstrap = self._figures, self._world.bootstrap
        moves.errors += [error for life in self._lives() for error in life.errors]
        figures.problems += failures(self._lives())
        inputs = self._app.judge(bootstrap, figures, self._writer, self._reader)
        self._judge_source()
        self._app.restored(bootstrap, inputs, figures)
        moves.counted += figures.outputs
        moves.killed += len(self._hurting.dealt)
        moves.problems += [f"{self._name}: {each}" for each in figures.problems]
        if not figures.verdict.is_clean:
            verdict = figures.verdict
            moves.problems.append(f"{self._name}: {verdict}: {verdict.examples}")
        self._note(
            f"{figures.outputs} counted, {figures.inputs} given; {moves.problems or 'right'}"
        )

    def _lives(self) -> list[AppLife]:
        return [life for each in self._all for life in each.lives]

    def _ends_of_source(self) -> dict[str, dict[int, int]]:
        kafka = self._kafka.bootstrap
        return {
            each: ends(kafka, each, PARTITIONS, is_committed=False) for each in self._app.topics
        }

    def _judge_source(self) -> None:
        """Check that Kafka has the counts from before the switch, and none from after it."""
        figures = self._figures
        there = read(self._kafka.bootstrap, self._app.target, PARTITIONS, lambda *_: None)
        ends_now = self._ends_of_source()
        figures.problems += wrong_at_source(self._ends, ends_now, there, figures.outputs)

    def _link(self, *words: str) -> Any:
        return run_link(self._world.database, *words, may_fail=True)

    def _await_copies(self, topics: set[str]) -> None:
        def are_there() -> bool:
            copies = self._link("status", self._app.name).get("copies", ())
            return topics <= {each["topic"] for each in copies}

        self._wait(are_there, "the topics are not mirrored", 0.5)

    def _wait_more(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() > until, "never")

    def _wait(self, is_done: Callable[[], bool], otherwise: str, look_seconds: float = 0.2) -> None:
        deadline = time.monotonic() + STUCK_SECONDS
        while not is_done():
            self._hurting.check()
            for each in self._instances:
                each.keep()
            if time.monotonic() > deadline:
                states = [each.lives[-1].state for each in self._instances]
                counted = f"{self._reader.total} of {self._writer.written} counted"
                raise TimeoutError(f"{self._name}: {otherwise}: {states}, {counted}")
            time.sleep(look_seconds)

    def _note(self, text: str) -> None:
        self._say(f"{clock()} {self._name}: {text}")


def streams_moves(options: Options, folder: Path, say: Say) -> Moves:
    """Do all rounds in an empty folder; its logs stay there."""
    moves = Moves()
    with (
        kafka_cluster.running(options.brokers, version=options.kafka) as kafka,
        running_world(folder) as world,
    ):
        for number in range(options.rounds):
            StreamsRound(world, kafka, options, number, folder, say).run(moves)
            if moves.problems:
                break
        here = ended_transactions(world.database, folder / "logs" / "transactions.txt")
        say(f"transactions here: {dict(here)}")
        if not here["committed by its client"]:
            moves.problems.append("no transaction was committed here")
    return moves


def main(options: Options) -> Result:
    """Run it."""
    install.counting_app()  # fail at once if a tool is missing
    with options.work_folder("moving-streams") as folder:
        moves = streams_moves(options, folder, say)
    return Result(not moves.problems, moves.text())
