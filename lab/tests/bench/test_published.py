"""Published figures: their file, and the tables of both pages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.worlds.published_rows import ROOT, RUN, all_rows, pages_in
from tidegate_bench.measure.published import (
    FILE,
    Figure,
    Shown,
    from_json,
    performance_part,
    readme_part,
    to_json,
    with_cases,
)


def test_the_tables_of_both_pages() -> None:
    older = msgspec.structs.replace(
        RUN,
        date="2026-12-23",
        commit="abcdefabcdef",
        cases=[Shown("reading", "SeaweedFS", "ms", Figure(123.456), Figure(0.0))],
    )
    newer = msgspec.structs.replace(
        RUN,
        cases=[Shown("ingest", "files", "ms/MB", Figure(2.68, 2.5, 2.8), Figure(0.8, 0.8, 0.8))],
    )
    runs = [newer, older]
    assert from_json(to_json(runs)) == runs
    assert readme_part(runs).splitlines() == [
        "| case | store and log, day | Tidegate | Apache Kafka |",
        "|---|---|---|---|",
        "| ingest | files, 2026-12-24 | 2.68 ms/MB | 0.80 ms/MB |",
        "| reading | SeaweedFS, 2026-12-23 | 123 ms | 0.00 ms |",
        "",
        "2 cores (Z80), 1 GB, Linux, Python 3.11.2, well built.",
    ]
    assert performance_part(runs).splitlines() == [
        "| case | store and log | Tidegate | Apache Kafka | ratio | day, commit |",
        "|---|---|---|---|---|---|",
        "| ingest | files | 2.68 (2.50-2.80) ms/MB | 0.80 ms/MB | 3.35 | 2026-12-24, 01234567 |",
        "| reading | SeaweedFS | 123 ms | 0.00 ms |  | 2026-12-23, abcdefab |",
        "",
        "2 cores (Z80), 1 GB, Linux, Python 3.11.2, well built.",
    ]


def test_each_machine_of_the_runs_is_named_once() -> None:
    other = msgspec.structs.replace(RUN, machine="a cluster of " + "many " * 20 + "cores")
    lines = readme_part([RUN, RUN, other]).splitlines()[3:]
    assert lines[0] == "2 cores (Z80), 1 GB, Linux, Python 3.11.2, well built."
    assert " ".join(lines[2:]).endswith("many cores, Python 3.11.2, well built.")
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"runs": []}', "length >= 1"),
        (b'{"runs": [{}]}', "missing required field `date`"),
        (b'{"runs": [{"day": ""}]}', "unknown field `day`"),
    ],
)
def test_a_file_of_another_form_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        from_json(content)


def test_the_file_has_the_cases_that_the_command_measures() -> None:
    shown = [each for run in from_json((ROOT / FILE).read_bytes()) for each in run.cases]
    wanted = with_cases(RUN, all_rows()).cases
    assert [(each.case, each.place, each.unit) for each in shown] == [
        (each.case, each.place, each.unit) for each in wanted
    ]


def test_figures_are_those_of_both_brokers() -> None:
    cases = with_cases(RUN, all_rows()).cases
    assert {(each.tidegate, each.kafka) for each in cases} == {
        (Figure(2.0, 1.5, 2.25), Figure(0.5, 0.5, 0.5))
    }
    with pytest.raises(KeyError, match=r"idle ack no budget.*kafka"):
        with_cases(RUN, all_rows()[:-1])


def test_a_page_that_differs_from_the_file_is_found(tmp_path: Path) -> None:
    tree = pages_in(tmp_path)
    command = [sys.executable, str(tree / "gateway" / "generate_docs.py"), "--check"]
    content = json.loads((tree / FILE).read_bytes())
    content["runs"][0]["cases"][0]["kafka"]["median"] += 1
    (tree / FILE).write_text(json.dumps(content))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{page} is old: run .venv/bin/python gateway/generate_docs.py"
        for page in ("README.md", "docs/performance.md")
    ]
