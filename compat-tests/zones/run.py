"""Three zones and unmodified clients: bytes across zones, and GETs per object in each zone.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/zones/run.py --gigabytes 0.2 --json

`tidegate dev --zones 3 --real` is started, PostgreSQL and SeaweedFS below its gateways.  First
clients say their zone in every way there is, and none of their bytes may cross zones; a zone loses
its gateways, and they go on elsewhere.  Then --consumers in each zone read the same records through
gateways that begin with nothing, once as WAL objects and once as segments.  Exit status 1 when a
promise was broken.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zones.cluster import Cluster, running_zones
from zones.fan_out import FanOut, Shape
from zones.traffic import TrafficRun

MOST_GETS_PER_OBJECT = 1.0


def run(cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    """Run both parts; return the figures, with what was wrong as `problems`."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="three zones and unmodified clients")
    parser.add_argument("--part", choices=("both", "traffic", "fan-out"), default="both")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--consumers", type=int, default=50, help="in each zone")
    parser.add_argument("--gateways", type=int, default=1, help="in each zone")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON alone")
    options = parser.parse_args(arguments)
    # PostgreSQL may have to run as another user, to whom a private folder would be closed.
    folder = Path(tempfile.mkdtemp(prefix="tidegate-zones-"))
    folder.chmod(0o755)
    try:
        more = dict(each.split("=", 1) for each in options.set)
        with running_zones(folder / "data", options.gateways, more) as cluster:
            figures = run(cluster, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures, indent=None if options.json else 2))
    return 1 if figures["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
