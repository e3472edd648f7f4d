"""The rate of `tidegate pipeline import` from Apache Kafka, and the CPU that it takes.

    compat-tests/run import-rate --mib 10240

Broker, gateway and import share this machine, and its disk.  The rate for each core is MiB by CPU
seconds of the import's processes, their start included.  The aim is 150 MiB.  At the end `tidegate
link verify` compares every batch.  The exit status is 1 if a batch differs.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from harness import broker
from runner.options import option
from runner.result import Result

from migration.importing import Beside, Import
from migration.rates.bulk import TOPIC, Bulk
from migration.rates.cpu import shares

_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Options:
    """The options."""

    mib: int = 10_240
    partitions: int = 8
    value_bytes: int = 4096
    batch_kib: int = 64
    master: str = option("", "of Spark; not given: --runner local")
    verify: bool = True


def run(options: Options) -> dict[str, Any]:
    """Run; return the figures, with the errors found as `problems`."""
    with ExitStack() as stack:
        kafka, gateway = _started(stack, "kafka"), _started(stack, "tidegate")
        bulk = Bulk.of(options.mib, options.partitions, options.value_bytes)
        begun = time.monotonic()
        bulk.write(kafka.bootstrap, options.batch_kib << 10)
        _say(f"{bulk.mib:.0f} MiB written in {time.monotonic() - begun:.0f} s")
        master = options.master
        runner = ("--master", master) if master else ("--runner", "local")
        mirror = Beside(gateway)
        figures = _imported(mirror, kafka, gateway, runner)
        figures |= {"runner": list(runner), "batch_kib": options.batch_kib}
        _say(json.dumps(figures))
        figures["problems"] += list(mirror.differences()) if options.verify else []
        return figures


def _imported(
    mirror: Beside,
    kafka: broker.LocalBroker,
    gateway: broker.LocalBroker,
    runner: Sequence[str],
) -> dict[str, Any]:
    """Import while the mirrors pause; return the figures."""
    one = Import.prepared(mirror, kafka.bootstrap, *runner)
    assert kafka.process is not None
    assert gateway.process is not None
    pids = {"source": kafka.process.popen.pid, "gateway": gateway.process.popen.pid}
    with shares(pids) as share:
        one.begin(mirror, kafka.bootstrap, TOPIC)
        with one.measured() as own:
            done = one.result()
    mib = done["bytes"] / _MIB
    return {
        "mib": round(mib),
        "seconds": done["seconds"],
        "mib_per_second": done["mib_per_second"],
        "import_cpu_seconds": round(own.seconds, 1),
        "import_user_share": round(own.user_seconds / own.seconds, 2),
        "mib_per_second_and_core": round(mib / own.seconds, 1),
        "cpu_seconds": {name: round(each, 1) for name, each in share.cpu.items()},
        "batches": done["batches"],
        "objects": done["objects"],
        "problems": [f"{name}: {text}" for name, text in done["problems"].items()],
    }


def _started(stack: ExitStack, kind: str) -> broker.LocalBroker:
    started = broker.start(kind)
    assert isinstance(started, broker.LocalBroker)
    stack.callback(shutil.rmtree, started.folder / "data", ignore_errors=True)
    stack.callback(started.kill)
    return started


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main(options: Options) -> Result:
    """Run it."""
    figures = run(options)
    return Result(not figures["problems"], figures=figures)
