"""The same backlog, copied by a link's mirror, by an import, and by MirrorMaker 2: time and CPU.

    compat-tests/run mirror-maker --mib 1024

One broker of Kafka has the backlog.  A gateway mirrors it.  Another gateway's cluster gets it by
`tidegate pipeline import --runner local`.  MirrorMaker 2 copies it into a second broker, with its
defaults but for --tasks and topics that keep their names.  Each copies once undisturbed, and once
with kill -9 of the copier in the middle.  Then every record is read, to count the records that are
lost, doubled, or at another offset than at the source.  The exit status is 1 if a link or an import
has such records.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from harness import broker, install
from harness.kafka_broker import COLLECTOR, LOG4J
from harness.process import Process, spawn
from runner.options import option
from runner.result import Result, say

from migration.importing import LINK, Beside, Import
from migration.rates.bulk import TOPIC, Bulk, Found, Looker
from migration.rates.cpu import Share, shares

LOOK_SECONDS: Final = 0.25
DELETED_SHARE: Final = 100
"""A hundredth of the records is deleted at the source, as retention does it."""
COPY_SECONDS: Final = 240.0
STILL_SECONDS: Final = 5.0
_ONE_COPY: Final = (
    "replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset-syncs.topic.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
    "config.storage.replication.factor",
)


@dataclass(frozen=True)
class Options:
    """The options."""

    mib: int = 1024
    partitions: int = 8
    value_bytes: int = 1024
    batch_kib: int = option(64, "of the batches at the source")
    tasks: int = option(4, "of MirrorMaker")
    kills: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """The cost of one way of copying.

    seconds: from its start to the last record.  copy_seconds: from the first record to the last.
    cpu_seconds: of each process.  found: the records at the target.  after_kill: the same for a run
    with kill -9 in the middle.
    """

    name: str
    seconds: float
    copy_seconds: float
    mib_per_second: float
    cpu_seconds: dict[str, float]
    cpu_ms_per_mib: float
    found: Found
    after_kill: Found | None = None


class Copier(Protocol):
    """One way of copying, into an empty cluster."""

    name: str
    bootstrap: str

    def pids(self) -> dict[str, int]:
        """Return its processes by name, without the source."""
        ...

    def begin(self) -> None:
        """Begin to copy."""
        ...

    def strike(self) -> None:
        """kill -9 the copying process, and start it again."""
        ...


class ByLink:
    """The mirror of a gateway."""

    name = "link"

    def __init__(self, stack: ExitStack, source: broker.LocalBroker) -> None:
        self._gateway = _started(stack, "tidegate")
        self._mirror = Beside(self._gateway)
        self._source = source
        self.bootstrap = self._gateway.bootstrap

    def pids(self) -> dict[str, int]:
        """See Copier."""
        return {"gateway": _pid(self._gateway)}

    def begin(self) -> None:
        """See Copier."""
        servers = ("--bootstrap-servers", self._source.bootstrap)
        self._mirror.command("link", "add", LINK, *servers, "--topics", TOPIC)

    def strike(self) -> None:
        """See Copier."""
        self._gateway.kill()
        self._gateway.start()


class ByImport:
    """`tidegate pipeline import --runner local`."""

    name = "import"
    _more = ("--runner", "local")

    def __init__(self, stack: ExitStack, source: broker.LocalBroker) -> None:
        self._gateway = _started(stack, "tidegate")
        self._mirror = Beside(self._gateway)
        self._source = source
        # A waiting import makes the mirrors pause.
        self._import = Import.prepared(self._mirror, source.bootstrap, *self._more)
        stack.callback(lambda: self._import.kill())
        self.bootstrap = self._gateway.bootstrap

    def pids(self) -> dict[str, int]:
        """See Copier."""
        return {"gateway": _pid(self._gateway), "import": self._import.pid}

    def begin(self) -> None:
        """See Copier."""
        self._import.begin(self._mirror, self._source.bootstrap, TOPIC)

    def strike(self) -> None:
        """See Copier."""
        self._import.kill()
        self._import = Import(self._mirror.data, *self._more)


class ByMirrorMaker:
    """MirrorMaker 2, into a second broker."""

    name = "MirrorMaker 2"

    def __init__(self, stack: ExitStack, source: broker.LocalBroker, tasks: int) -> None:
        self._target = _started(stack, "kafka")
        self._folder = broker.fresh_folder("mirror-maker")
        self._process: Process | None = None
        self._command = self._prepared(source, tasks)
        stack.callback(self._kill)
        self.bootstrap = self._target.bootstrap

    def _prepared(self, source: broker.LocalBroker, tasks: int) -> list[str]:
        log4j = self._folder / "log4j2.properties"
        log4j.write_text(LOG4J.format(level="WARN"))
        settings = self._folder / "mm2.properties"
        settings.write_text(_properties(source.bootstrap, self._target.bootstrap, tasks))
        libs = install.mirror_maker_jars()
        java = ["java", "-Xms256m", "-Xmx2g", *COLLECTOR]  # as in Kafka's start script
        java += [f"-Dlog4j2.configurationFile={log4j.as_uri()}", "-cp", f"{libs}/*"]
        return [*java, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def pids(self) -> dict[str, int]:
        """See Copier."""
        found = {"target broker": _pid(self._target)}
        if self._process is not None:
            found["MirrorMaker"] = self._process.popen.pid
        return found

    def begin(self) -> None:
        """See Copier."""
        self._process = spawn(self._command, self._folder / "mirror-maker.log")

    def strike(self) -> None:
        """See Copier."""
        self._kill()
        self.begin()


def _properties(source: str, target: str, tasks: int) -> str:
    values = {
        "clusters": "source, target",
        "source.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        "source->target.enabled": "true",
        "source->target.topics": TOPIC,
        "target->source.enabled": "false",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "tasks.max": str(tasks),
        **dict.fromkeys(_ONE_COPY, "1"),
    }
    return "".join(f"{name} = {value}\n" for name, value in values.items())


def _started(stack: ExitStack, kind: str) -> broker.LocalBroker:
    """Start a broker.  The end of the stack stops it, and removes its data."""
    started = broker.start(kind)
    assert isinstance(started, broker.LocalBroker)
    stack.callback(shutil.rmtree, started.folder / "data", ignore_errors=True)
    stack.callback(started.kill)
    return started


def _pid(one: broker.LocalBroker) -> int:
    assert one.process is not None
    return one.process.popen.pid


class Comparison:
    """The run; see the module's head."""

    def __init__(self, source: broker.LocalBroker, options: Options) -> None:
        self._source = source
        self._options = options
        whole = Bulk.of(options.mib, options.partitions, options.value_bytes)
        self._bulk = replace(whole, start=whole.records // DELETED_SHARE)
        self._makers: Sequence[Callable[[ExitStack, broker.LocalBroker], Copier]] = (
            ByLink,
            ByImport,
            partial(ByMirrorMaker, tasks=options.tasks),
        )

    def rows(self) -> Iterator[Row]:
        """Copy in each way."""
        begun = time.monotonic()
        self._bulk.write(self._source.bootstrap, self._options.batch_kib << 10)
        _say(f"{self._bulk.mib:.0f} MiB written in {time.monotonic() - begun:.0f} s")
        for make in self._makers:
            row = self._timed(make)
            killed = self._killed(make) if self._options.kills else None
            yield replace(row, after_kill=killed)

    def _timed(self, make: Callable[[ExitStack, broker.LocalBroker], Copier]) -> Row:
        with ExitStack() as stack:
            copier = make(stack, self._source)
            looker = stack.enter_context(closing(Looker(copier.bootstrap, self._bulk)))
            begun, first = time.monotonic(), 0.0
            before = {"source": _pid(self._source), **copier.pids()}
            with shares(before) as share:
                copier.begin()
                new = {name: each for name, each in copier.pids().items() if name not in before}
                with shares(new) as more:
                    for total in self._growth(looker):
                        first = first or (time.monotonic() if total else 0.0)
                    ended = time.monotonic()
            found = looker.found()
            row = self._row(copier.name, ended - begun, ended - first, (share, more), found)
            _say(f"{row}")
            return row

    def _row(
        self,
        name: str,
        seconds: float,
        copy_seconds: float,
        measured: Sequence[Share],
        found: Found,
    ) -> Row:
        cpu = {name: round(used, 1) for share in measured for name, used in share.cpu.items()}
        return Row(
            name,
            round(seconds, 1),
            round(copy_seconds, 1),
            round(self._bulk.mib / max(copy_seconds, LOOK_SECONDS), 1),
            cpu,
            round(1000 * sum(cpu.values()) / self._bulk.mib, 1),
            found,
        )

    def _growth(self, looker: Looker) -> Iterator[int]:
        """Yield the number of records at the target, until all have arrived."""
        wanted = self._bulk.count
        latest = time.monotonic() + COPY_SECONDS
        while True:
            total = looker.count()
            yield total
            if total >= wanted:
                return
            if time.monotonic() > latest:
                raise TimeoutError(f"only {total} of {wanted} records are there")
            time.sleep(LOOK_SECONDS)

    def _killed(self, make: Callable[[ExitStack, broker.LocalBroker], Copier]) -> Found:
        with ExitStack() as stack:
            copier = make(stack, self._source)
            half = self._bulk.count // 2
            with closing(Looker(copier.bootstrap, self._bulk)) as looker:
                copier.begin()
                for total in self._growth(looker):
                    if total >= half:
                        break
            _say(f"kill -9 at {total} records")
            copier.strike()
            with closing(Looker(copier.bootstrap, self._bulk)) as looker:
                self._await_still(looker)
                found = looker.found()
            _say(f"{copier.name} after a kill -9: {found}")
            return found

    def _await_still(self, looker: Looker) -> None:
        """Wait until all records have arrived, and no more come."""
        for _ in self._growth(looker):
            pass
        last, since = looker.count(), time.monotonic()
        latest = since + COPY_SECONDS
        while time.monotonic() - since < STILL_SECONDS and time.monotonic() < latest:
            time.sleep(LOOK_SECONDS)
            total = looker.count()
            if total != last:
                last, since = total, time.monotonic()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run(options: Options) -> list[Row]:
    """Run; return a row for each way."""
    with ExitStack() as stack:
        source = _started(stack, "kafka")
        return list(Comparison(source, options).rows())


def problems(rows: Sequence[Row]) -> list[str]:
    """Return what a link or an import lost, doubled or moved."""
    return [
        f"{row.name}: {found}"
        for row in rows
        for found in (row.found, row.after_kill)
        if row.name != ByMirrorMaker.name
        and found is not None
        and (found.lost or found.doubled or found.moved)
    ]


def main(options: Options) -> Result:
    """Run it."""
    rows = run(options)
    wrong = problems(rows)
    for each in wrong:
        say(each)
    return Result(not wrong, figures=rows)
