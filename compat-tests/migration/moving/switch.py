"""Topics of Apache Kafka are switched to three gateways under idempotent producers and groups.

    compat-tests/run switch --rounds 20 --seed 1

All clients use the gateways, which forward writes to Kafka until the switch.  A round has a topic
of its own.  Clients begin, the topic is switched, and clients continue.  Then every record is read
and compared with the acknowledgements.  With --back the topic then goes back to Kafka, while
clients write, and Kafka must have every record at the same offset.  With --hurt a gateway gets kill
-9 or SIGSTOP while the topic is switched, or goes back.  The exit status is 1 if a record was lost,
doubled, misplaced or out of order, or if a client was stuck.  If no process was hurt, it is also 1
if a gateway closed a connection.

--times N: each topic goes to and fro N times in its round; with --back.  --brokers 3: Kafka has
three brokers, and topics three replicas.  --hurt-source: in most switches and rollbacks a broker
gets kill -9 or SIGSTOP, or the leaders move.  --kafka 3.9.1: another release.  --plain: a producer
that is not idempotent writes, too.  Its repeated and late records count as errors only if no
process was hurt, since then no connection breaks.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from faults.attendance import clock, now_ms
from faults.clients import FAMILIES, PLAIN, Load, installed, start_families
from faults.ledger import FamilyLedger
from faults.stalls import longest_gap
from faults.watch import Say, Watch
from faults.world import World, running_world
from harness import kafka_cluster
from runner.options import option
from runner.result import Result, say
from runner.shared import FromKafka, Kept, Seeded

from migration.moving.figures import Figures, text
from migration.moving.hurts import Hurt, hurt_gateway, hurt_source
from migration.moving.source import PATIENCE_SECONDS, Source
from migration.tidegate_command import LINK_SECONDS, run_link

LINK: Final = "old"
CALM_SECONDS: Final = 3.0
STEP_SECONDS: Final = 240.0
"""For all tries of a switch or a return; a topic rests for 60 s after some that were lifted."""
HURT_TRIES: Final = 3
"""Tries of a step that are hurt; those after them are calm, so that runs end."""
SOURCE_SHARE: Final = 0.75
"""How many of them get the source hurt with --hurt-source."""
CLOSED: Final = "closed a connection"
ONLY_EPOCH: Final = "leader_epoch differ"
"""The only difference of batches that were written back after the source elected other leaders,
which is a known limit.
"""
SHOWN: Final = ("problem", "lag_records", "reverse_lag_records", "problems", "switching")
SETTINGS: Final = {"link.fetch.wait.ms": "200", "link.topics.interval.ms": "1000"}


@dataclass(frozen=True)
class Options(Seeded, Kept, FromKafka):
    """The options."""

    rounds: int = 20
    clients: Sequence[str] = option(tuple(FAMILIES), "by comma", choices=FAMILIES)
    plain: bool = option(False, "a producer that is not idempotent")
    rate: int = option(200, "records a second of each family")
    is_hurt: bool = option(False, "kill -9 and SIGSTOP of gateways", flag="--hurt")
    goes_back: bool = option(False, "roll each topic back, too", flag="--back")
    times: int = option(1, "with --back: how often, each topic")
    is_source_hurt: bool = option(False, "brokers are hurt, too", flag="--hurt-source")


class SwitchRun:
    """The rounds."""

    def __init__(
        self, world: World, source: Source, options: Options, logs: Path, say: Say
    ) -> None:
        self.link = LINK
        self._world = world
        self._source = source
        self._options = options
        self._logs = logs
        self._say = say
        self._random = random.Random(options.seed)
        self.figures = Figures()

    def run(self) -> Figures:
        """Do all of them."""
        servers = ("--bootstrap-servers", self._source.bootstrap)
        self._link("add", LINK, *servers, "--topics", "move-.*", "--forward-writes")
        for number in range(1, self._options.rounds + 1):
            self._round(f"move-{number}")
        if not self.figures.hurts:
            repeats = self.figures.repeats
            self.figures.problems += [f"without a hurt: {each}" for each in repeats.examples]
            self.figures.problems += self._closed()
        return self.figures

    def _closed(self) -> list[str]:
        """Return the lines of gateways that closed a connection of a client."""
        logs = [each.log.read_text() for each in self._world.gateways.values()]
        return [line for log in logs for line in log.splitlines() if CLOSED in line]

    def _link(self, *words: str, may_fail: bool = False) -> Any:
        return run_link(self._world.database, *words, may_fail=may_fail)

    def _round(self, topic: str) -> None:
        self._source.create(topic)
        self._await_copy(topic)
        load = Load(self._world.bootstrap, self._options.rate, topic)
        families = start_families(self._options.clients, load, self._logs / topic)
        watch = Watch(self._world, families, lambda text: None, topic=topic)
        try:
            watch.wait_until_moving(now_ms())
            watch.wait(CALM_SECONDS)
            ends: list[int] = []
            for _ in range(self._options.times):
                ends = self._to_and_fro(topic, watch)
            self._judge(topic, watch, ends)
        finally:
            for family in families:
                family.kill()

    def _to_and_fro(self, topic: str, watch: Watch) -> list[int]:
        """Switch, and with --back roll back; return the ends of the source after the switch."""
        begun_ms, ended_ms = self._switched(topic, watch)
        ends = self._source.ends(topic)
        watch.wait_until_moving(ended_ms)
        watch.wait(CALM_SECONDS)
        self._measure(topic, watch.ledgers, begun_ms, ended_ms)
        if self._options.goes_back:
            self._go_back(topic, watch)
        return ends

    def _await_copy(self, topic: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            status = self._link("status", self.link, may_fail=True)
            if any(each["topic"] == topic for each in status.get("copies", ())):
                return
            time.sleep(0.5)
        raise TimeoutError(f"{topic} is not mirrored")

    def _switched(self, topic: str, watch: Watch) -> tuple[int, int]:
        """Switch, and try again if it is given up; return when the last try began and ended."""

        def lifted() -> None:
            self.figures.lifted += 1

        told, begun_ms, ended_ms = self._tried("switch", topic, watch, lifted)
        self.figures.commands_ms.append(int(told["seconds"] * 1000))
        return begun_ms, ended_ms

    def _go_back(self, topic: str, watch: Watch) -> None:
        def kept() -> None:
            self.figures.kept += 1

        _, begun_ms, ended_ms = self._tried("rollback", topic, watch, kept)
        self.figures.back_commands_ms.append(ended_ms - begun_ms)
        watch.wait_until_moving(ended_ms)
        watch.wait(CALM_SECONDS)
        self._measure(topic, watch.ledgers, begun_ms, ended_ms, is_back=True)

    def _tried(
        self, step: str, topic: str, watch: Watch, lifted: Callable[[], None]
    ) -> tuple[dict[str, Any], int, int]:
        """Try a step until it is done; return the output, begin and end of the last try."""
        deadline = time.monotonic() + STEP_SECONDS
        tries = 0
        while time.monotonic() < deadline:
            hurts = self._hurts_soon(topic) if tries < HURT_TRIES else []
            tries += 1
            begun_ms = now_ms()
            try:
                told = self._link(step, self.link, topic, "--yes", may_fail=True)
            except subprocess.TimeoutExpired:
                told = {"reason": f"the command has not ended in {LINK_SECONDS:.0f} s"}
            ended_ms = now_ms()
            self._settle(hurts)
            if not told["reason"]:
                return told, begun_ms, ended_ms
            lifted()
            self._tell_links()
            self._say(f"{clock()} {step} of {topic}: {told['reason']}")
            watch.wait_until_moving(now_ms())
        raise RuntimeError(f"{step} of {topic} was not done in {tries} tries")

    def _tell_links(self) -> None:
        """Print the state of the links from each gateway, which shows why a step was not done."""
        for gateway in self._world.gateways.values():
            with suppress(OSError):
                url = f"http://127.0.0.1:{gateway.admin_port}/v1/links"
                with urllib.request.urlopen(url, timeout=5) as page:
                    for each in json.load(page):
                        shown = {name: each[name] for name in SHOWN if each[name]}
                        self._say(f"gateway {gateway.number}: {shown}")

    def _hurts_soon(self, topic: str) -> list[Hurt]:
        """Hurt a gateway and the source a moment later, as the options say."""
        hurts: list[Hurt] = []
        if self._options.is_hurt:
            hurts.append(hurt_gateway(self._world, self._random, self._say))
        if self._options.is_source_hurt and self._random.random() < SOURCE_SHARE:
            hurts.append(hurt_source(self._source, topic, self._random, self._say))
        return hurts

    def _settle(self, hurts: Sequence[Hurt]) -> None:
        for each in hurts:
            each.settle()
            self.figures.hurts += 1
        if hurts:
            self._source.await_whole()

    def _measure(
        self,
        topic: str,
        ledgers: Sequence[FamilyLedger],
        begun_ms: int,
        ended_ms: int,
        *,
        is_back: bool = False,
    ) -> None:
        stalls: list[int] = []
        for ledger in ledgers:
            for times in ledger.acknowledged_at.values():
                usual = longest_gap(times, begun_ms - int(CALM_SECONDS * 1000), begun_ms)
                gap = longest_gap(times, begun_ms, ended_ms + int(CALM_SECONDS * 1000))
                stalls.append(max(gap - usual, 0))
        longest = max(stalls, default=0)
        (self.figures.back_stalls_ms if is_back else self.figures.stalls_ms).append(longest)
        what = "back at its source" if is_back else "switched"
        took = f"{(ended_ms - begun_ms) / 1000:.0f} s"
        self._say(f"{clock()} {topic}: {what} in {took}, writers waited {longest} ms")

    def _judge(self, topic: str, watch: Watch, ends: list[int]) -> None:
        figures = self.figures
        figures.add(topic, watch.finish())
        if self._options.goes_back:
            figures.problems += self._differences(topic)
            return
        if self._source.ends(topic) != ends:
            figures.problems.append(f"{topic} was written to at its source after the switch")
        if self._source.limit(topic) != "0":
            figures.problems.append(f"{topic} is not fenced at its source")

    def _differences(self, topic: str) -> list[str]:
        """Compare the topic at its source with what the gateways have."""
        there = self._source.records(topic)
        here = self._source.records(topic, self._world.bootstrap)
        wrong = [each for each in there.keys() | here.keys() if there.get(each) != here.get(each)]
        found = [f"{topic}: {len(wrong)} records differ, {sorted(wrong)[:3]}"] if wrong else []
        if self._source.limit(topic) == "0":
            found.append(f"{topic} is fenced at its source")
        compared = self._link("verify", self.link, "--topic", topic, may_fail=True)
        different = [each for each in compared if each["difference"]]
        if self._options.is_source_hurt:
            newer = [each for each in different if each["difference"].endswith(ONLY_EPOCH)]
            self.figures.newer_epochs += len(newer)
            different = [each for each in different if each not in newer]
        return found + [f"{topic}-{each['partition']}: {each['difference']}" for each in different]


def switch_run(options: Options, folder: Path, say: Say) -> Figures:
    """Run it in an empty folder; its logs stay there."""
    with (
        kafka_cluster.running(options.brokers, version=options.kafka) as kafka,
        running_world(folder, more=SETTINGS) as world,
    ):
        return SwitchRun(world, Source(kafka), options, folder / "logs", say).run()


def main(options: Options) -> Result:
    """Run it."""
    names = [*options.clients, *([PLAIN] if options.plain else [])]
    times = options.times if options.goes_back else 1
    chosen = replace(options, clients=installed(names, say), times=times)
    with options.work_folder("switch") as folder:
        figures = switch_run(chosen, folder, say)
    return Result(figures.is_clean, text(figures, with_repeats=options.plain), figures)
