"""python -m tidegate_simulation --seeds 1-100 --operations 150"""

from __future__ import annotations

import argparse
import sys
import time

from .run import Report, run_seeds


def main() -> int:
    """Run the seeds of the command line; 1 when a violation was found."""
    parser = argparse.ArgumentParser(prog="tidegate_simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-20", help="first-last")
    parser.add_argument("--operations", type=int, default=150, help="of all clients of a run")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    started, failed = time.monotonic(), 0
    seeds = range(int(first), int(last or first) + 1)
    for report in run_seeds(seeds, arguments.operations):
        _show(report)
        failed += bool(report.violations)
    print(f"{len(seeds)} seeds, {failed} failed, {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


def _show(report: Report) -> None:
    landed = " ".join(f"{kind}={count}" for kind, count in report.landed.counts.items())
    print(
        f"seed {report.seed}: {report.virtual_seconds:.0f} virtual s, {report.entries} entries,"
        f" {len(report.violations)} violations; {landed}"
    )
    if report.landed.missing:
        print(f"  drawn, but never struck: {' '.join(report.landed.missing)}")
    for each in report.violations[:5]:
        print(f"  {each.kind}: {each.text}")
    if report.violations:
        print(f"  again: {report.replay}")


if __name__ == "__main__":
    sys.exit(main())
