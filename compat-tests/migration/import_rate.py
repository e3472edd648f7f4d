"""The rate of `tidegate pipeline import` from Apache Kafka, and the CPU that it takes.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/migration/import_rate.py --mib 10240

Broker, gateway and import share this machine, and its disk.  A MiB a second and core is what the
import's processes do in a second of their own CPU time, with their start; the aim is 150.  At the
end `tidegate link verify` compares every batch.  Exit status 1 when one differs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import broker

from migration.bulk import TOPIC, Bulk
from migration.cpu import shares
from migration.importing import Beside, Import

_MIB: Final = 1 << 20


def run(
    mib: int,
    partitions: int,
    value_bytes: int,
    batch_kib: int,
    runner: Sequence[str],
    *,
    verify: bool,
) -> dict[str, Any]:
    """Run; return the figures, with what was wrong as `problems`."""
    with ExitStack() as stack:
        kafka, gateway = _started(stack, "kafka"), _started(stack, "tidegate")
        bulk = Bulk.of(mib, partitions, value_bytes)
        begun = time.monotonic()
        bulk.write(kafka.bootstrap, batch_kib << 10)
        _say(f"{bulk.mib:.0f} MiB written in {time.monotonic() - begun:.0f} s")
        mirror = Beside(gateway)
        figures = _imported(mirror, kafka, gateway, runner)
        figures |= {"runner": list(runner), "batch_kib": batch_kib}
        _say(json.dumps(figures))
        figures["problems"] += list(mirror.differences()) if verify else []
        return figures


def _imported(
    mirror: Beside,
    kafka: broker.LocalBroker,
    gateway: broker.LocalBroker,
    runner: Sequence[str],
) -> dict[str, Any]:
    """Import while the mirrors stand aside; return the figures."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="the rate of an import from Apache Kafka")
    parser.add_argument("--mib", type=int, default=10_240)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--value-bytes", type=int, default=4096)
    parser.add_argument("--batch-kib", type=int, default=64)
    parser.add_argument("--master", default="", help="of Spark; not given: --runner local")
    parser.add_argument("--verify", action=argparse.BooleanOptionalAction, default=True)
    options = vars(parser.parse_args(arguments))
    master = options.pop("master")
    runner = ("--master", master) if master else ("--runner", "local")
    figures = run(**options, runner=runner)
    print(json.dumps(figures))
    return bool(figures["problems"])


if __name__ == "__main__":
    raise SystemExit(main())
