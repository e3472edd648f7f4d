"""Random scripts of transactions on Apache Kafka and on a gateway: all answers and state compared.

    compat-tests/run transactions

A script is a few dozen requests of three producers and two groups, drawn from a seed.  Both brokers
get each script, step by step.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio
from harness.broker import running
from runner.options import option
from runner.result import Result
from runner.shared import Seeded

from transactions.differential.coordinators import find_coordinators, take_first_producer_id
from transactions.differential.drawing import draw
from transactions.differential.playing import Brokers, Outcome, play
from transactions.differential.steps import Script

AT_ONCE: Final = 12
SHOWN: Final = 6
"""Differences of a script."""
SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
GATEWAY_SETTINGS: Final = {"wal.linger.ms": "0", "housekeeping.interval.ms": "1000"}


@dataclass(slots=True)
class Run:
    """Many scripts, some of them at once."""

    seed: int
    brokers: Brokers
    prefix: str
    outcomes: list[Outcome] = field(default_factory=list)

    async def play_all(self, scripts: Sequence[Script], at_once: int) -> None:
        """Play scripts."""
        for each in self.brokers:
            await find_coordinators(each)
            await take_first_producer_id(each)
        left = iter(scripts)
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(self._play_some, left)

    async def _play_some(self, left: Iterator[Script]) -> None:
        for script in left:
            outcome = await play(script, self.brokers, f"{self.prefix}{script.number}")
            self.outcomes.append(outcome)
            for each in outcome.differences[:SHOWN]:
                print(each, flush=True)
            if outcome.differences:
                print(f"    {outcome.differences[0].step}", flush=True)

    def report(self, seconds: float) -> None:
        """Print the findings."""
        steps = sum(each.steps for each in self.outcomes)
        answers: Counter[tuple[str, int]] = Counter()
        permitted: Counter[str] = Counter()
        for each in self.outcomes:
            answers.update(each.answers)
            permitted.update(each.permitted)
        differing = sum(bool(each.differences) for each in self.outcomes)
        print(f"seed {self.seed}: {len(self.outcomes)} scripts, {steps} steps, {seconds:.0f} s")
        kinds: dict[str, list[str]] = {}
        for (kind, code), count in sorted(answers.items()):
            kinds.setdefault(kind, []).append(f"{code} x {count}")
        for kind, found in kinds.items():
            print(f"  {kind}: {', '.join(found)}")
        for name, count in permitted.most_common():
            print(f"permitted in {count} scripts: {name}")
        print(f"{differing} scripts with other differences")


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    scripts: int = 20
    first: int = option(0, "number of the first script")
    worn: int = option(0, "scripts at the last epochs, besides")
    at_once: int = AT_ONCE
    kafka: str = option("kafka", "host:port of one that runs")
    gateway: str = option("tidegate", "host:port of one that runs")


def main(options: Options) -> Result:
    """Run it."""
    last = options.first + options.scripts
    scripts = [draw(options.seed, each) for each in range(options.first, last)]
    worn = [draw(options.seed, each, is_worn=True) for each in range(last, last + options.worn)]
    with (
        running(options.kafka, SETTINGS) as kafka,
        running(options.gateway, {**SETTINGS, **GATEWAY_SETTINGS}) as gateway,
    ):
        brokers = Brokers(kafka.bootstrap, gateway.bootstrap)
        run = Run(options.seed, brokers, f"d{int(time.time())}-")
        begun = time.monotonic()
        trio.run(run.play_all, scripts, options.at_once)
        trio.run(run.play_all, worn, len(worn))
        run.report(time.monotonic() - begun)
    return Result(not any(each.differences for each in run.outcomes))
