"""The application java/CountingApp.java: its topics, its instances, and the judge of its counts."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import install

from exactly_once.clients import Client, java, wait_until
from exactly_once.counts import judge_counts
from exactly_once.flow import Reader, Writer
from exactly_once.restores import AppLife, together
from exactly_once.streams_report import Figures
from exactly_once.topics import read, wait_until_settled

PARTITIONS: Final = 6
KEYS: Final = 60
INSTANCES: Final = 3
SETTLE_SECONDS: Final = 60.0
RESTORE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Counting:
    """The application.  name: its application.id, and so its group.  folder: for files and logs."""

    name: str
    source: str
    target: str
    folder: Path
    timeout_ms: int = 10_000

    @property
    def repartition(self) -> str:
        """The repartition topic, which brings records to the instance that counts their key."""
        return f"{self.name}-keyed-repartition"

    @property
    def changelog(self) -> str:
        """The changelog topic, from which stores are restored."""
        return f"{self.name}-counts-changelog"

    @property
    def topics(self) -> tuple[str, ...]:
        """Return all topics of the application."""
        return self.source, self.target, self.repartition, self.changelog

    def instance(self, bootstrap: str, number: int, *more: str) -> Client[AppLife]:
        """Return an instance that is not started yet.  more: further words of its command line."""
        logs = self.folder / "logs"
        words = [bootstrap, self.name, self.source, self.target, self.files(number)]
        command = java(install.counting_app(), logs, "CountingApp", *words, self.timeout_ms, *more)
        name = "-".join([self.name, str(number), *more])
        return Client(name, command, logs / f"{name}.log", AppLife)

    def files(self, number: int) -> Path:
        """Return where an instance keeps its stores."""
        return self.folder / f"state-{self.name}-{number}"

    def writer(self, bootstrap: str, rate: int, seed: int) -> Writer:
        """Return a writer of the application's input.  rate: in records a second."""
        return Writer(bootstrap, self.source, KEYS, rate, seed)

    def reader(self, bootstrap: str) -> Reader:
        """Return a reader of the application's output."""
        return Reader(bootstrap, self.target, PARTITIONS)

    def judge(
        self, bootstrap: str, figures: Figures, writer: Writer, reader: Reader
    ) -> Counter[str]:
        """Compare the final output and input; return the number of inputs of each key."""
        for topic in self.topics[1:]:
            if not wait_until_settled(bootstrap, topic, PARTITIONS, SETTLE_SECONDS):
                figures.problems.append(f"a transaction stays open in {topic}")
        inputs: Counter[str] = Counter()
        outputs: defaultdict[str, list[int]] = defaultdict(list)

        def counted(_where: int, key: bytes | None, value: bytes | None) -> None:
            outputs[(key or b"").decode()].append(int(value or 0))

        def given(_where: int, _key: bytes | None, value: bytes | None) -> None:
            inputs[(value or b"").decode().split()[0]] += 1

        def read_all(topic: str, take: Any, isolation: str = "read_committed") -> int:
            return read(bootstrap, topic, PARTITIONS, take, isolation=isolation)

        figures.inputs = read_all(self.source, given)
        figures.outputs = read_all(self.target, counted)
        uncommitted = read_all(self.target, lambda *_: None, "read_uncommitted")
        figures.uncommitted_outputs = uncommitted
        figures.verdict = judge_counts(inputs, outputs)
        figures.problems += writer.failed[:3]
        if figures.inputs != writer.written:
            figures.problems.append(f"{writer.written} inputs were acknowledged")
        if outputs != reader.counts:
            figures.problems.append("a reader that went along read something else")
        return inputs

    def restored(self, bootstrap: str, inputs: Counter[str], figures: Figures) -> list[AppLife]:
        """Start all instances without files; their stores must hold the final counts."""
        for number in range(INSTANCES):
            shutil.rmtree(self.files(number), ignore_errors=True)
        instances = [self.instance(bootstrap, each, "dump") for each in range(INSTANCES)]
        for each in instances:
            each.start()
        try:
            is_whole = wait_until(
                lambda: together(each.lives[-1] for each in instances) == inputs,
                RESTORE_SECONDS,
            )
        finally:
            for each in instances:
                each.close()
        if not is_whole:
            figures.problems.append("the stores did not come back without their files")
        return [life for each in instances for life in each.lives]
