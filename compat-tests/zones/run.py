"""Three zones and unmodified clients: bytes across zones, and GETs per object in each zone.

    compat-tests/run zones --gigabytes 0.2 --json

The program starts `tidegate dev --zones 3 --real`, which runs on PostgreSQL and SeaweedFS.  First,
clients name their zone in every possible way, and none of their bytes may cross zones.  Then a zone
loses its gateways, and its clients must continue in other zones.  At the end --consumers in each
zone read the same records through gateways with empty caches, once as WAL objects and once as
segments.  The exit status is 1 if a promise was broken.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from runner.options import option
from runner.result import Result

from zones.cluster import Cluster, running_zones
from zones.fan_out import FanOut, Shape
from zones.traffic import TrafficRun

MOST_GETS_PER_OBJECT = 1.0


@dataclass(frozen=True)
class Options:
    """The options."""

    part: Literal["both", "traffic", "fan-out"] = "both"
    gigabytes: float = 2.0
    partitions: int = 24
    consumers: int = option(50, "in each zone")
    gateways: int = option(1, "in each zone")
    settings: tuple[str, ...] = option((), "NAME=VALUE, by semicolon", flag="--set", separator=";")


def run(cluster: Cluster, options: Options) -> dict[str, Any]:
    """Run the chosen parts; return the figures, with the errors found as `problems`."""
    problems: list[str] = []
    figures: dict[str, Any] = {"gateways_in_zone": options.gateways, "problems": problems}
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {text}", file=sys.stderr, flush=True)

    if options.part != "fan-out":
        figures["traffic"] = TrafficRun(cluster, say, problems).run()
    if options.part != "traffic":
        shape = Shape(options.gigabytes, options.partitions, options.consumers)
        figures["fan_out"] = FanOut(cluster, shape, say, problems).run()
        problems += too_many(figures["fan_out"])
    return figures


def too_many(figures: dict[str, Any]) -> list[str]:
    """Return a sentence for each zone whose gateways read objects more than once."""
    return [
        f"{what} in {zone}: {row['gets_per_object_mean']} GETs an object"
        for what, found in figures.items()
        for zone, row in found["zones"].items()
        if row["gets_per_object_mean"] > MOST_GETS_PER_OBJECT
    ]


def main(options: Options) -> Result:
    """Run it."""
    # PostgreSQL may have to run as another user, which could not read a private folder.
    folder = Path(tempfile.mkdtemp(prefix="tidegate-zones-"))
    folder.chmod(0o755)
    try:
        more = dict(each.split("=", 1) for each in options.settings)
        with running_zones(folder / "data", options.gateways, more) as cluster:
            figures = run(cluster, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Result(not figures["problems"], figures=figures)
