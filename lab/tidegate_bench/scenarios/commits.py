"""commits: how long the coordinator takes to commit a flush, with many gateways on one log.

Each gateway is a process of its own and commits once in each quarter of a second, at a random
moment, whether or not the former commit is done.  There are no stores and no clients.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

import trio

from tidegate_gateway.cli.dev_zones.postgres import password_file, running_postgres

from ..brokers.committer import Spec, Told
from ..clients import workers
from ..errors import BenchError
from ..lab import Lab, rows_of
from ..measure.figures import Observation, latency_figures
from ..measure.table import Report

EVERY_SECONDS: Final = 0.25
SECONDS: Final = 25
QUICK_SECONDS: Final = 3
MIN_PARTITIONS: Final = 1_000
ZONES: Final = 3
OURS: Final = ("sqlite", "postgres", "s3")
CLUSTER: Final = "c" * 22
NOTE: Final = (
    "from a proposal to its answer, over all gateways; lost: appends that another gateway's entry"
    " came before; cpu: of all gateways together, of one core"
)


@dataclass(frozen=True, slots=True)
class _Load:
    """flushes: of each gateway."""

    gateways: int
    slices: int
    flushes: int


def run(lab: Lab) -> Report:
    """Measure with the log of --log: sqlite, postgres, s3 (in the store of --store) or a URL.

    A log at a URL must be empty, and is measured once: the bench may not clear it.

    Raises:
      BenchError: gateways cannot share such a log, or one did not start.
    """
    options = lab.options
    if options.log == "memory":
        raise BenchError("commits: gateways cannot share a log in memory; give another --log")
    load = _Load(options.gateways, options.slices, round(SECONDS / EVERY_SECONDS))
    if options.quick:
        load = _Load(3, 20, round(QUICK_SECONDS / EVERY_SECONDS))
    seen: list[Observation] = []
    runs = options.lengths.runs if (options.log or "sqlite") in OURS else 1
    for number in range(runs):
        with _folder() as folder:
            told = trio.run(_measured, lab, load, folder)
        seen.append(_observation(told, load.flushes * EVERY_SECONDS))
        lab.say(f"commits: run {number + 1} of {runs}: {_brief(seen[-1])}")
    label = f"{load.gateways} gateways, {load.slices} slices, {options.log or 'sqlite'}"
    return Report("commits", rows_of(label, ["tidegate"], [seen]), (NOTE,))


@contextmanager
def _folder() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measured(lab: Lab, load: _Load, folder: Path) -> list[Told]:
    partitions = max(MIN_PARTITIONS, load.slices)
    async with _log_url(lab, folder) as url:
        specs = [
            Spec(
                number,
                _settings(lab, folder, url, number),
                partitions,
                load.slices,
                load.flushes,
                EVERY_SECONDS,
            )
            for number in range(load.gateways)
        ]
        return await trio.to_thread.run_sync(_together, specs)


@asynccontextmanager
async def _log_url(lab: Lab, folder: Path) -> AsyncGenerator[str]:
    name = lab.options.log or "sqlite"
    if name == "postgres":
        server = folder / "postgres"
        await trio.Path(server).mkdir()
        async with running_postgres(server, folder / "postgres.log") as url:
            os.environ["PGPASSFILE"] = str(password_file(server))  # the gateways inherit it
            yield url
    elif name == "s3":
        place = lab.store.open_place(folder)
        if not place.startswith("s3:"):
            raise BenchError("commits: --log s3 needs an S3 server as --store")
        begin, _, query = place.partition("?")
        try:
            yield f"{begin}/metadata-log?{query}"
        finally:
            await trio.to_thread.run_sync(lab.store.drop_place, place)
    else:
        yield f"sqlite:{folder}/metadata.db" if name == "sqlite" else name


def _settings(lab: Lab, folder: Path, url: str, number: int) -> dict[str, str]:
    return {
        "node.id": str(number + 1),
        "cluster.id": CLUSTER,
        "broker.rack": f"zone-{number % ZONES + 1}",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "peer.listener": "127.0.0.1:0",
        "admin.listener": "",
        "metadata.log": url,
        "object.store": f"file:{folder}/objects",
        **lab.options.settings,
    }


def _together(specs: Sequence[Spec]) -> list[Told]:
    """Start all gateways, the first one first; let them commit; return their results."""
    with ExitStack() as stack:
        all_: list[workers.Worker] = []
        for spec in specs:
            text = json.dumps(asdict(spec))
            all_.append(
                stack.enter_context(workers.process("tidegate_bench.brokers.committer", text))
            )
            all_[-1].wait_until_ready()
        for each in all_:
            each.go()
        for each in all_:
            # Ready to end: until then other gateways may ask it to append for them.
            each.wait_until_ready()
        for each in all_:
            each.go()
        return [Told(**cast(dict[str, Any], each.told())) for each in all_]


def _observation(told: Sequence[Told], seconds: float) -> Observation:
    took = [second for each in told for second in each.seconds]
    return Observation(
        more=latency_figures(took)
        | {
            "commits": float(len(took)),
            "failed": float(sum(each.failed for each in told)),
            "lost": float(sum(each.lost_races for each in told)),
            "cpu %": 100 * sum(each.cpu_seconds for each in told) / seconds,
        }
    )


def _brief(seen: Observation) -> str:
    return ", ".join(f"{name} {value:,.1f}" for name, value in seen.more.items())
