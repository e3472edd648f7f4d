"""The command line."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from .campaigns import TARGETS, Order, Outcome, made, run, stored
from .growth import SIZES, worst_growth


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 1 if there is a finding."""
    asked = _parser().parse_args(arguments)
    if asked.target == "all" or asked.jobs > 1:
        return _run_processes(asked)
    if asked.growth:
        return _look_at_growth(asked)
    order = Order(asked.target, asked.seed, asked.executions, asked.seconds, asked.corpus)
    if order.executions is None and order.seconds is None:
        order = Order(asked.target, asked.seed, 100_000, None, asked.corpus)
    outcome = run(order)
    facts = facts_of(outcome)
    print(json.dumps(facts) if asked.json else _in_words(facts), flush=True)
    if asked.missed:
        _show_missed(outcome)
    return 1 if outcome.findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tidegate_fuzz", description="Coverage-guided fuzzing.")
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--executions", type=int, help="100000, if there is no --seconds")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="folder of inputs, read and added to")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its own seed")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--growth", type=int, help="instead: try N inputs at growing lengths")
    parser.add_argument("--missed", action="store_true", help="print the branches never reached")
    return parser


def _look_at_growth(asked: argparse.Namespace) -> int:
    """Print the inputs whose time grows faster than their size."""
    target = made(TARGETS[asked.target])
    inputs = target.seeds(Random(asked.seed)) + stored(asked.corpus)
    found = list(worst_growth(target, inputs, seed=asked.seed, tries=asked.growth))
    for each in found:
        print(f"{asked.target}: seconds {each.seconds} for input {each.data.hex()}")
    print(f"{asked.target}: {asked.growth} inputs of {SIZES[-1]} bytes, {len(found)} too slow")
    return 1 if found else 0


def _run_processes(asked: argparse.Namespace) -> int:
    """Run all targets one after another, each in as many processes as asked."""
    worst = 0
    for target in TARGETS if asked.target == "all" else (asked.target,):
        running = [
            subprocess.Popen(_command(asked, target, asked.seed + job)) for job in range(asked.jobs)
        ]
        worst = max(worst, *(each.wait() for each in running))
    return worst


def _command(asked: argparse.Namespace, target: str, seed: int) -> list[str]:
    command = [sys.executable, "-m", "tidegate_fuzz", target, "--seed", str(seed)]
    for name in ("executions", "seconds", "corpus"):
        value = getattr(asked, name)
        if value is not None:
            command += [f"--{name}", str(value)]
    return [*command, "--json"] if asked.json else command


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as plain values."""
    tally, marks = outcome.tally, outcome.marks
    return {
        "target": outcome.order.target,
        "seed": outcome.order.seed,
        "executions": tally.executions,
        "seconds": round(tally.seconds, 1),
        "per_second": round(tally.executions / max(tally.seconds, 1e-9)),
        "branches_reached": marks.reached,
        "branches": len(marks.places),
        "seeds": tally.seeds,
        "corpus": tally.corpus,
        "peak_bytes": tally.peak_bytes,
        "slowest_seconds": round(tally.slowest[0], 4),
        "findings": [
            {"signature": each.signature, "text": each.text, "input": each.data.hex()}
            for each in outcome.findings
        ],
    }


def _in_words(facts: dict[str, Any]) -> str:
    lines = [
        f"{facts['target']} seed {facts['seed']}: {facts['executions']} executions in"
        f" {facts['seconds']} s ({facts['per_second']}/s), branches"
        f" {facts['branches_reached']}/{facts['branches']}, corpus {facts['seeds']} +"
        f" {facts['corpus']}, peak {facts['peak_bytes']} bytes,"
        f" {len(facts['findings'])} findings"
    ]
    for each in facts["findings"]:
        lines += [f"  {each['signature']}", f"    input {each['input']}", each["text"]]
    return "\n".join(lines)


def _show_missed(outcome: Outcome) -> None:
    for path, line in outcome.marks.not_reached():
        print(f"  missed {path}:{line}")
