"""The worlds in which planted bugs are known to be found: lab/tests/facts/recorded_seeds.json.

Each bug has one line, so that two changes of the file rarely conflict.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from tests.worlds.small_worlds import SmallWorld

PATH = Path(__file__).parents[1] / "facts" / "recorded_seeds.json"


def worlds_of(bug: str) -> list[SmallWorld]:
    """Return the recorded worlds of a bug, the cheapest first."""
    return [_world(each) for each in _read().get(bug, ())]


def record(bug: str, worlds: Sequence[SmallWorld]) -> None:
    """Replace the recorded worlds of a bug; without worlds, remove its record.

    Other processes may record at the same time.
    """
    with Path(__file__).open() as lock:
        flock(lock, LOCK_EX)
        rows = {**_read(), bug: [_row(each) for each in worlds]}
        lines = [
            f"{json.dumps(each)}: {json.dumps(rows[each])}" for each in sorted(rows) if rows[each]
        ]
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def all_bugs() -> list[str]:
    """Return the names of all bugs with a recorded world."""
    return sorted(_read())


def _read() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(PATH.read_text())
    return found


def _row(world: SmallWorld) -> dict[str, Any]:
    return {name: value for name, value in asdict(world).items() if value is not None}


def _world(row: dict[str, Any]) -> SmallWorld:
    names = {each: tuple(row[each]) for each in ("clients", "faults") if each in row}
    return SmallWorld(row["seed"], row["operations"], **names)
