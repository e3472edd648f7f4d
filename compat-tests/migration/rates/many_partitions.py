"""Figures of a link to Apache Kafka with very many partitions: idle, trickle, switches in waves.

    compat-tests/run many-partitions

One broker of Kafka has all partitions, and one gateway on SQLite and files mirrors them.  These are
the aims for 10,000 partitions on two cores.  While clients write nothing, the gateway uses at most
3 % of a core, and Kafka at most 10 % more than without the link.  If every partition gets a batch
each 10 s, a run takes at most 40 bytes of the metadata log.  A switch of 500 partitions delays
writers by at most 5 s, and all partitions are switched within 10 minutes.  The exit status is 1 if
a switch fails or `verify` finds a difference.  A missed aim is only printed.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness import broker
from runner.options import option
from runner.result import Result

from migration.importing import Beside
from migration.rates.cpu import Share, shares
from migration.rates.log_tally import tallied
from migration.rates.trickle import trickling, write_each
from tidegate_coordination.client.source_bounds import Place

LINK: Final = "many"
A_REQUEST: Final = 25
CREATE_SECONDS: Final = 120.0
LINK_SECONDS: Final = 300.0
SETTLE_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 0.5
WRITE_SECONDS: Final = 0.02
CALM_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Options:
    """The options."""

    partitions: int = 10_000
    per_topic: int = 20
    wave: int = option(500, "partitions of a switch")
    waves: int = option(0, "switch only so many; 0: all")
    idle_seconds: float = 60.0
    every: float = option(10.0, "seconds between two batches")
    heap: str = option("2g", "of Kafka")
    verify: bool = True


@dataclass(slots=True)
class Figures:
    """The measurements of a run.

    without, idle, trickle, switched: the CPU of gateway and Kafka, in percent of a core.  without:
    before the link is added.  idle: with the link, while clients write nothing.  trickle: with one
    batch each 10 s in every partition.  switched: after all switches.
    """

    partitions: int = 0
    linked_seconds: float = field(default=0.0, init=False)
    without: dict[str, float] = field(default_factory=dict[str, float], init=False)
    idle: dict[str, float] = field(default_factory=dict[str, float], init=False)
    trickle: dict[str, float] = field(default_factory=dict[str, float], init=False)
    switched: dict[str, float] = field(default_factory=dict[str, float], init=False)
    bytes_a_run: float = field(default=0.0, init=False)
    log_bytes_a_second: float = field(default=0.0, init=False)
    objects_a_second: float = field(default=0.0, init=False)
    status_seconds: float = field(default=0.0, init=False)
    verify_seconds: float = field(default=0.0, init=False)
    stalls_seconds: list[float] = field(default_factory=list[float], init=False)
    writers_waited_seconds: list[float] = field(default_factory=list[float], init=False)
    waves_seconds: float = field(default=0.0, init=False)
    problems: list[str] = field(default_factory=list[str], init=False)


class ManyPartitions:
    """The run; see the module's head."""

    def __init__(
        self, kafka: broker.LocalBroker, gateway: broker.LocalBroker, options: Options
    ) -> None:
        self.figures = Figures(options.partitions)
        self._kafka = kafka
        self._gateway = gateway
        self._options = options
        self._mirror = Beside(gateway)
        count = options.partitions // options.per_topic
        self._topics = [f"many-{number:04}" for number in range(count)]

    def run(self) -> Figures:
        """Measure all."""
        self._fill()
        self.figures.without = self._shares("without a link", 30.0)
        self._add_link()
        self._wait_for_copies()
        self.figures.idle = self._shares("idle", self._options.idle_seconds)
        self._trickle()
        self._look()
        self._switch_all()
        return self.figures

    # -- parts -------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Create the topics, and write a batch to each partition."""
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap, "log_level": 0})
        begun = time.monotonic()
        for at in range(0, len(self._topics), A_REQUEST):
            wanted = [
                NewTopic(each, self._options.per_topic, 1)
                for each in self._topics[at : at + A_REQUEST]
            ]
            for made in admin.create_topics(wanted).values():
                made.result(CREATE_SECONDS)
        write_each(self._kafka.bootstrap, self._places(self._topics))
        _say(f"{self._options.partitions} partitions made in {time.monotonic() - begun:.0f} s")

    def _add_link(self) -> None:
        servers = ("--bootstrap-servers", self._kafka.bootstrap)
        self._mirror.command("link", "add", LINK, *servers, "--topics", ".*", "--forward-writes")

    def _wait_for_copies(self) -> None:
        begun = time.monotonic()
        while time.monotonic() - begun < LINK_SECONDS:
            time.sleep(LOOK_SECONDS)
            link = self._page()
            if link.get("partitions") == self._options.partitions and self._is_complete():
                break
        else:
            raise TimeoutError(f"the copies are not complete: {link}")
        self.figures.linked_seconds = round(time.monotonic() - begun, 1)
        _say(f"all are linked, and their batches are here, after {self.figures.linked_seconds} s")

    def _is_complete(self) -> bool:
        status = self._mirror.command("link", "status", LINK)
        return all(each["behind"] == 0 and each["records"] for each in status["copies"])

    def _page(self) -> dict[str, Any]:
        command = self._gateway.command
        port = command[command.index("--admin-port") + 1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/links", timeout=30) as answer:
            links = json.loads(answer.read())
        return dict(links[0]) if links else {}

    def _shares(self, name: str, seconds: float) -> dict[str, float]:
        time.sleep(SETTLE_SECONDS)
        with self._measured() as share:
            time.sleep(seconds)
        return self._told(name, share)

    @contextmanager
    def _measured(self) -> Generator[Share]:
        processes = {"gateway": self._gateway.process, "kafka": self._kafka.process}
        with shares({name: each.popen.pid for name, each in processes.items() if each}) as share:
            yield share

    def _told(self, name: str, share: Share) -> dict[str, float]:
        found = {each: share.percent(each) for each in share.cpu}
        text = ", ".join(f"{each} {percent} %" for each, percent in found.items())
        _say(f"{name}: {text} of a core, over {share.seconds:.0f} s")
        return found

    def _trickle(self) -> None:
        figures, options = self.figures, self._options
        with trickling(self._kafka.bootstrap, self._places(self._topics), options.every):
            time.sleep(SETTLE_SECONDS)
            log = f"sqlite:{self._mirror.data}/metadata.db"
            with tallied(log) as tally, self._measured() as share:
                time.sleep(options.idle_seconds)
        figures.trickle = self._told(f"a batch each {options.every:g} s", share)
        if tally.lost or not tally.runs:
            figures.problems.append(f"the log cannot be counted: {tally}")
            return
        figures.bytes_a_run = round(tally.run_bytes / tally.runs, 1)
        figures.log_bytes_a_second = round(tally.all_bytes / share.seconds)
        figures.objects_a_second = round(tally.objects / share.seconds, 2)
        _say(f"{tally.runs} runs in {tally.objects} objects: {figures.bytes_a_run} bytes of log a"
             f" run, {figures.log_bytes_a_second / 1000:.1f} kB of log a second")  # fmt: skip

    def _look(self) -> None:
        self.figures.status_seconds = self._seconds_of("link", "status", LINK)
        _say(f"link status took {self.figures.status_seconds} s")
        if self._options.verify:
            begun = time.monotonic()
            self.figures.problems += self._differences()
            self.figures.verify_seconds = round(time.monotonic() - begun, 1)
            _say(f"link verify took {self.figures.verify_seconds} s")

    def _seconds_of(self, *words: str) -> float:
        begun = time.monotonic()
        self._mirror.command(*words)
        return round(time.monotonic() - begun, 2)

    def _differences(self) -> Generator[str]:
        for each in self._mirror.command("link", "verify", LINK, may_fail=True):
            if each["difference"]:
                yield f"{each['topic']}-{each['partition']}: {each['difference']}"

    def _switch_all(self) -> None:
        size = self._options.wave // self._options.per_topic
        waves = [self._topics[at : at + size] for at in range(0, len(self._topics), size)]
        begun = time.monotonic()
        for number, names in enumerate(waves[: self._options.waves or None], 1):
            self._switch(number, names)
        self.figures.waves_seconds = round(time.monotonic() - begun, 1)
        _say(f"all waves took {self.figures.waves_seconds} s")
        self.figures.switched = self._shares("after the switches", 30.0)

    def _switch(self, number: int, names: Sequence[str]) -> None:
        with written(self._gateway.bootstrap, self._places(names)) as writer:
            begun = time.monotonic()
            done = self._mirror.command("link", "switch", LINK, *names, "--yes", may_fail=True)
            seconds = time.monotonic() - begun
        if done["reason"]:
            self.figures.problems.append(f"wave {number}: {done['reason']}")
        self.figures.problems += writer.problems
        self.figures.stalls_seconds.append(round(done.get("seconds", 0.0), 2))
        self.figures.writers_waited_seconds.append(round(writer.waited, 2))
        _say(f"wave {number}: {done['reason'] or 'switched'}, stall {done['seconds']:.2f} s,"
             f" a writer waited {writer.waited:.2f} s, command {seconds:.1f} s")  # fmt: skip

    def _places(self, topics: Sequence[str]) -> list[Place]:
        return [(each, index) for each in topics for index in range(self._options.per_topic)]


class Writer:
    """A producer that writes to some partitions in turn.  waited: the longest, until an answer."""

    def __init__(self, bootstrap: str, places: Sequence[Place]) -> None:
        self.problems: list[str] = []
        self.waited = 0.0
        self.ended = threading.Event()
        self._places = places
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True}
        )

    def run(self) -> None:
        """Write until it is ended."""
        number = 0
        while not self.ended.is_set():
            self._write(*self._places[number % len(self._places)])
            number += 7  # so that it soon reaches all topics
            self._producer.poll(WRITE_SECONDS)
        self._producer.flush(60)

    def _write(self, topic: str, partition: int) -> None:
        begun = time.monotonic()

        def acknowledged(error: object, _: object) -> None:
            self.waited = max(self.waited, time.monotonic() - begun)
            if error is not None:
                self.problems.append(f"a write to {topic}-{partition} failed: {error}")

        self._producer.produce(topic, b"x" * 100, partition=partition, on_delivery=acknowledged)


@contextmanager
def written(bootstrap: str, places: Sequence[Place]) -> Generator[Writer]:
    """Write to partitions during the block, and for a moment before and after it."""
    writer = Writer(bootstrap, places)
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        time.sleep(CALM_SECONDS)
        writer.waited = 0.0  # the first writes wait for metadata
        yield writer
        time.sleep(CALM_SECONDS)
    finally:
        writer.ended.set()
        thread.join()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run(options: Options) -> Figures:
    """Run; return the figures."""
    with ExitStack() as stack:
        kafka = broker.start("kafka", heap=options.heap)
        stack.callback(kafka.stop)
        gateway = broker.start("tidegate")
        stack.callback(gateway.stop)
        assert isinstance(kafka, broker.LocalBroker)
        assert isinstance(gateway, broker.LocalBroker)
        for each in (kafka, gateway):
            stack.callback(shutil.rmtree, each.folder / "data", ignore_errors=True)
        return ManyPartitions(kafka, gateway, options).run()


def main(options: Options) -> Result:
    """Run it."""
    figures = run(options)
    return Result(not figures.problems, figures=figures)
