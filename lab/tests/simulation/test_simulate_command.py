"""`tidegate simulate`: its output, and its behaviour after a failed seed or a dead process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path

from typer.testing import CliRunner

from tests.worlds.app_world import first_line
from tidegate_simulation.checks.checker import Violation
from tidegate_simulation.command import app
from tidegate_simulation.plans.faults import Landed
from tidegate_simulation.run import Report, simulate
from tidegate_simulation.summary import Summary
from tidegate_simulation.workers import Workers

REPORT = Report(7, 20, 25, 3600.0, 30, 4, Landed({"crash": 2}, ()), (), ())


def test_seeds_are_run_and_summed_up() -> None:
    result = CliRunner().invoke(app, ["--seeds", "1-2", "--operations", "20", "--json"])
    found = json.loads(result.stdout)
    assert result.exit_code == 0, found["failures"]
    assert (found["seeds"], found["complete"]) == (2, True)
    reports = [simulate(seed, 20) for seed in (1, 2)]
    assert found["operations"] == sum(each.operations_done for each in reports) >= 40
    assert found["log_entries"] == sum(each.entries for each in reports)
    assert found["gateways_started"] >= 6


def test_the_trace_of_a_seed_is_written(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    arguments = ["--seeds", "1", "--operations", "20", "--trace", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert path.read_text(encoding="utf-8").splitlines() == list(simulate(1, 20).trace)
    assert "1 seeds" in result.stdout


def test_bad_arguments_are_refused() -> None:
    for arguments in (["--seeds", "2-1"], ["--seeds", "x"], ["--seeds", "1-2", "--trace", "t"]):
        assert CliRunner().invoke(app, arguments).exit_code == 2


def test_a_failure_is_shown_with_the_command_that_repeats_it() -> None:
    summary = Summary()
    summary.add(REPORT)
    summary.add(replace(REPORT, seed=8, violations=(Violation("lost", "value 3"),)))
    found = summary.as_json(2.0, is_whole=False)
    assert (found["seeds"], found["virtual_hours"], found["complete"]) == (2, 2.0, False)
    assert found["faults"] == {"crash": 4}
    failures = found["failures"]
    assert isinstance(failures, list)
    assert failures == [
        {
            "seed": 8,
            "replay": "tidegate simulate --seeds 8-8 --operations 20",
            "missing": [],
            "violations": [{"kind": "lost", "text": "value 3"}],
        }
    ]


def test_a_process_that_dies_fails_its_seed_and_no_other() -> None:
    with Workers(range(1, 4), 20, 1) as workers:
        reports = workers.reports()
        first = next(reports)
        (process,) = active_children()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        rest = list(reports)
    assert not first.violations
    assert [each.seed for each in rest] == [2, 3]
    assert [each.kind for each in rest[0].violations] == ["the process failed"]
    assert not rest[1].violations
    assert not active_children()


def test_ctrl_c_ends_with_what_was_found() -> None:
    command = [sys.executable, "-m", "tidegate_simulation", "--seeds", "1-100000", "--json"]
    process = subprocess.Popen(
        [*command, "--operations", "20", "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        # A shell starts background processes with SIGINT ignored, and this one would inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert first_line(process, process.stderr)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=300)
    found = json.loads(stdout)
    assert not found["complete"]
    assert found["seeds"] >= 1
    assert process.returncode in (1, 130)
