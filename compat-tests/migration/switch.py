"""Topics of Apache Kafka are switched to three gateways under idempotent producers and groups.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/migration/switch.py --rounds 20 --seed 1

All clients use the gateways, which forward writes to Kafka until the switch.  A round has a topic
of its own: clients begin, the topic is switched, clients go on; then every record is read and
compared with what was acknowledged.  With --back the topic then goes back to Kafka, while clients
write, and Kafka must have every record at the same offset.  With --hurt a gateway gets kill -9 or
SIGSTOP while the topic is switched, or goes back.  Exit status 1 when something was lost, doubled,
misplaced, out of order or stuck.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic
from crash.ledger import Verdict
from faults.attendance import now_ms
from faults.clients import FAMILIES, PARTITIONS, Load, installed, start_families
from faults.ledger import FamilyLedger
from faults.stalls import longest_gap
from faults.watch import Say, Watch
from faults.world import World, running_world
from harness import broker
from harness.places import ROOT, WORK

LINK: Final = "old"
PATIENCE_SECONDS: Final = 60.0
COMMAND_SECONDS: Final = 120.0
CALM_SECONDS: Final = 3.0
AWAY_SECONDS: Final = (0.5, 8.0)
TRIES: Final = 10
SETTINGS: Final = {"link.fetch.wait.ms": "200", "link.topics.interval.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Options:
    """The options.  rate: records a second of each family.  is_hurt: gateways are hurt, too.

    goes_back: each topic is rolled back after its switch.
    """

    rounds: int
    seed: int
    clients: Sequence[str]
    rate: int = 200
    is_hurt: bool = False
    goes_back: bool = False


@dataclass(slots=True)
class Figures:
    """What a run measured; stalls_ms: of acknowledgements, beyond the longest gap before.

    back_stalls_ms, kept: the same as stalls_ms and lifted, of rollbacks.
    """

    rounds: int = 0
    lifted: int = 0
    kept: int = 0
    back_stalls_ms: list[int] = field(default_factory=list)
    hurts: int = 0
    stalls_ms: list[int] = field(default_factory=list)
    commands_ms: list[int] = field(default_factory=list)
    acknowledged: int = 0
    failed: int = 0
    records: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return self.verdict.is_clean and not self.problems and not self.failed


class Source:
    """The classic cluster: one broker of Apache Kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str) -> None:
        """Create a topic."""
        self._admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_SECONDS)

    def ends(self, topic: str) -> list[int]:
        """Return where the partitions end."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "ends"})
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30)[1]
                for each in range(PARTITIONS)
            ]
        finally:
            consumer.close()

    def records(self, topic: str, bootstrap: str = "") -> dict[tuple[int, int], bytes | None]:
        """Return the values of a topic by partition and offset, here or at another cluster."""
        ends = dict(enumerate(self.ends(topic)))
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap or self.bootstrap,
                "group.id": "whole",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        found: dict[tuple[int, int], bytes | None] = {}
        left = {each for each, end in ends.items() if end}
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            consumer.assign([TopicPartition(topic, each, 0) for each in ends])
            while left and time.monotonic() < deadline:
                for message in consumer.consume(10_000, 0.5):
                    if message.error() is None:
                        partition, offset = message.partition(), message.offset()
                        assert partition is not None
                        assert offset is not None
                        found[partition, offset] = message.value()
                        if offset >= ends[partition] - 1:
                            left.discard(partition)
        finally:
            consumer.close()
        return found

    def limit(self, topic: str) -> str:
        """Return the topic's max.message.bytes."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)
        return str(found["max.message.bytes"].value)


class SwitchRun:
    """The rounds."""

    def __init__(
        self, world: World, source: Source, options: Options, logs: Path, say: Say
    ) -> None:
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
        return self.figures

    def _link(self, *words: str, may_fail: bool = False) -> Any:
        command = [sys.executable, "-m", "tidegate_gateway", "link", *words]
        done = subprocess.run(
            [*command, "--json", "--log", self._world.database],
            cwd=ROOT,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode and not may_fail:
            raise RuntimeError(f"{words}: {done.stderr.decode()}{done.stdout.decode()}")
        return json.loads(done.stdout or b"null")

    def _round(self, topic: str) -> None:
        self._source.create(topic)
        self._await_copy(topic)
        load = Load(self._world.bootstrap, self._options.rate, topic)
        families = start_families(self._options.clients, load, self._logs / topic)
        watch = Watch(self._world, families, lambda text: None, topic=topic)
        try:
            watch.wait_until_moving(now_ms())
            watch.wait(CALM_SECONDS)
            begun_ms, ended_ms = self._switched(topic, watch)
            ends = self._source.ends(topic)
            watch.wait_until_moving(ended_ms)
            watch.wait(CALM_SECONDS)
            self._measure(topic, watch.ledgers, begun_ms, ended_ms)
            if self._options.goes_back:
                self._go_back(topic, watch)
            self._judge(topic, watch, ends)
        finally:
            for family in families:
                family.kill()

    def _await_copy(self, topic: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            status = self._link("status", LINK, may_fail=True)
            if any(each["topic"] == topic for each in status["copies"]):
                return
            time.sleep(0.5)
        raise TimeoutError(f"{topic} is not mirrored")

    def _switched(self, topic: str, watch: Watch) -> tuple[int, int]:
        """Switch, again if it is lifted; return when the last try began and ended."""
        for _ in range(TRIES):
            hurt = self._hurt_soon() if self._options.is_hurt else None
            begun_ms = now_ms()
            told = self._link("switch", LINK, topic, "--yes", may_fail=True) or {}
            ended_ms = now_ms()
            if hurt is not None:
                hurt.join()
                self.figures.hurts += 1
            if told and not told["reason"]:
                self.figures.commands_ms.append(int(told["seconds"] * 1000))
                return begun_ms, ended_ms
            self.figures.lifted += 1
            watch.say(f"{topic} is not switched: {told.get('reason', 'no answer')}")
            watch.wait_until_moving(now_ms())
        raise RuntimeError(f"{topic} was not switched in {TRIES} tries")

    def _go_back(self, topic: str, watch: Watch) -> None:
        begun_ms, ended_ms = self._returned(topic, watch)
        watch.wait_until_moving(ended_ms)
        watch.wait(CALM_SECONDS)
        self._measure(topic, watch.ledgers, begun_ms, ended_ms, is_back=True)

    def _returned(self, topic: str, watch: Watch) -> tuple[int, int]:
        """Roll back, again if it is lifted; return when the last try began and ended."""
        for _ in range(TRIES):
            hurt = self._hurt_soon() if self._options.is_hurt else None
            begun_ms = now_ms()
            told = self._link("rollback", LINK, topic, "--yes", may_fail=True) or {}
            ended_ms = now_ms()
            if hurt is not None:
                hurt.join()
                self.figures.hurts += 1
            if told and not told["reason"]:
                return begun_ms, ended_ms
            self.figures.kept += 1
            watch.say(f"{topic} does not go back: {told.get('reason', 'no answer')}")
            watch.wait_until_moving(now_ms())
        raise RuntimeError(f"{topic} did not go back in {TRIES} tries")

    def _hurt_soon(self) -> threading.Thread:
        """Hurt a gateway a moment later, and let it come back."""
        number = self._random.choice(list(self._world.gateways))
        kills = self._random.random() < 0.5
        after, away = self._random.uniform(0.6, 2.0), self._random.uniform(*AWAY_SECONDS)

        def hurt() -> None:
            time.sleep(after)
            if kills:
                self._world.kill_gateway(number)
                time.sleep(away)
                self._world.start_gateway(number)
            else:
                self._world.gateways[number].signal(signal.SIGSTOP)
                time.sleep(away)
                self._world.gateways[number].signal(signal.SIGCONT)

        thread = threading.Thread(target=hurt)
        thread.start()
        return thread

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
        self._say(f"{topic}: {what}, writers waited {longest} ms")

    def _judge(self, topic: str, watch: Watch, ends: list[int]) -> None:
        judged = watch.finish()
        figures = self.figures
        figures.rounds += 1
        figures.acknowledged += sum(judged.acknowledged.values())
        figures.failed += sum(judged.failed.values())
        figures.records += judged.records
        figures.verdict = merged(figures.verdict, judged.verdict)
        figures.problems += [f"{topic}: {each}" for each in judged.problems]
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
        return found


def merged(one: Verdict, other: Verdict) -> Verdict:
    """Return the sum of two verdicts."""
    found = Verdict()
    for name in Verdict.__dataclass_fields__:
        setattr(found, name, getattr(one, name) + getattr(other, name))
    return found


def switch_run(options: Options, folder: Path, say: Say) -> Figures:
    """Run it in a folder that is empty; what was logged stays there."""
    kafka = broker.start("kafka")
    try:
        with running_world(folder, more=SETTINGS) as world:
            source = Source(kafka.bootstrap)
            return SwitchRun(world, source, options, folder / "logs", say).run()
    finally:
        kafka.stop()


def _of_rollbacks(figures: Figures) -> list[str]:
    stalls = sorted(figures.back_stalls_ms)
    if not stalls:
        return []
    half = int(statistics.median(stalls))
    return [
        f"{len(stalls)} rollbacks, {figures.kept} lifted before: writers waited p50 {half} ms,"
        f" at most {stalls[-1]} ms"
    ]


def text(figures: Figures) -> str:
    """Return the figures for people."""
    stalls = sorted(figures.stalls_ms)
    half = int(statistics.median(stalls)) if stalls else 0
    return "\n".join(
        [
            f"{figures.rounds} switches, {figures.lifted} lifted before, {figures.hurts} hurts",
            f"writers waited p50 {half} ms, at most {max(stalls, default=0)} ms",
            *_of_rollbacks(figures),
            f"{figures.acknowledged} acknowledged, {figures.failed} failed,"
            f" {figures.records} records read",
            f"{figures.verdict}",
            *figures.problems,
            "promises kept" if figures.is_clean else "promises BROKEN",
        ]
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="topics are switched from Kafka under load")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", default=",".join(FAMILIES), help="by comma")
    parser.add_argument("--rate", type=int, default=200, help="records a second of each family")
    parser.add_argument("--hurt", action="store_true", help="kill -9 and SIGSTOP on the way")
    parser.add_argument("--back", action="store_true", help="roll each topic back, too")
    parser.add_argument("--folder", type=Path, help="where logs and data stay (an empty one)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    given = parser.parse_args()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    clients = installed(given.clients.split(","), say)
    options = Options(given.rounds, given.seed, clients, given.rate, given.hurt, given.back)
    with TemporaryDirectory(dir=WORK) as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = switch_run(options, folder.resolve(), say)
    print(msgspec.json.encode(figures).decode() if given.json else text(figures))
    return 0 if figures.is_clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
