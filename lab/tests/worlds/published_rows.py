"""A run of the bench, the rows that it could have measured, and the pages that show them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tidegate_bench.measure.figures import Spread
from tidegate_bench.measure.published import CASES, Run
from tidegate_bench.measure.table import Row

ROOT = Path(__file__).parents[3]
RUN = Run("2026-12-24", "0123456789" * 4, "2 cores (Z80), 1 GB, Linux", "3.11.2, well built")


def rows_of(label: str) -> list[Row]:
    """The rows of both brokers; ours are four times Kafka's."""
    ours, theirs = Spread(2.0, 1.5, 2.25), Spread(0.5, 0.5, 0.5)
    return [
        Row(label, name, {"MB/s": Spread(9, 9, 9), "cpu ms/MB": each, "p50 ms": each})
        for name, each in (("tidegate", ours), ("kafka", theirs))
    ]


def all_rows() -> list[Row]:
    """The rows of all published cases."""
    return [row for each in CASES for row in rows_of(each.label)]


def pages_in(folder: Path) -> Path:
    """Copy the pages with generated parts, and the program that writes them."""
    for name in ("README.md", "gateway/generate_docs.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "docs", folder / "docs")
    return folder
