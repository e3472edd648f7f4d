"""`tidegate plan`: the machines, requests and money that a load will need."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tidegate_runtime.settings_texts import SettingsError

from ..cost.bill import Prices, prices_of
from ..cost.figures import INGEST_MEASURED, MERGE_MEASURED
from ..cost.plan import USED_SHARE, Load, Plan, plan
from .existing_cluster import NOT_TOLD
from .output.table import aligned, printable

COLUMNS: Final = 80


def run_plan(load: Load, prices_file: Path | None, *, as_json: bool) -> int:
    """Print the plan; return the exit code."""
    try:
        prices = prices_of(prices_file)
    except SettingsError as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return NOT_TOLD
    made = plan(load, prices)
    if as_json:
        load_told = {**asdict(load), "batches": load.batches.value}
        print(json.dumps({**asdict(made), "load": load_told}))
    else:
        print(text_of(made, prices))
    return 0


def text_of(made: Plan, prices: Prices) -> str:
    """Return the plan for a person, in COLUMNS."""
    load = made.load
    zones = f"{load.zones} zones" if load.zones > 1 else "1 zone"
    total = sum(made.money.values())
    rows = [
        (
            "gateways",
            f"{made.gateways} of a core each in {zones}; {made.busy_cores:.2f} cores busy",
        ),
        ("pipeline", f"{made.pipeline_cores:.2f} cores busy"),
        ("PUTs", f"about {made.puts:,.1f} a second"),
        ("GETs", f"about {made.gets:,.1f} a second"),
        ("storage", f"{made.stored_gb:,.0f} GB after {load.retention_days:g} days"),
        *((f"${money:,.0f} a month", cause) for cause, money in made.money.items()),
        (f"${total:,.0f} a month", "in all"),
    ]
    lines = aligned(rows)
    notes = [
        f"Prices of {printable(prices.region)}, {printable(prices.date)}; CPU and requests of the"
        f" bench of {INGEST_MEASURED} and {MERGE_MEASURED} (docs/performance.md). A gateway uses"
        f" {USED_SHARE:.0%} of its core, also without one zone. Small writes travel in a log on"
        " PostgreSQL or SQLite (wal.inline.max.bytes). Not in it: the database, reads far from the"
        " tail, and load balancers.",
    ]
    if made.crossing:
        notes.append(
            f"Clients that do not name their zone would cross zones for ${made.crossing:,.0f} a"
            " month more (docs/operations/zones.md)."
        )
    for each in notes:
        lines += ["", *textwrap.wrap(each, COLUMNS)]
    return "\n".join(lines)
