"""The age of the published figures: fail when they are of a commit that is too old.

    python .ci/bench_age.py

docs/benchmarks.json names the commit of each run of the bench that the pages show.  A run is too
old when HEAD has more than 300 commits that the run's commit has not.  If HEAD does not descend
from that commit, because it was rebased, the last commit that changed the file stands for it.

Without git's history, as in a shallow clone or an archive, no age is known: the program says so in
one line and passes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = "docs/benchmarks.json"
MOST = 300  # commits
COMMAND = "./tidegate bench published --vs-kafka --publish"


def main(root: Path = ROOT) -> int:
    if unknown := why_unknown(root):
        print(f"the age of {FILE} is not checked: {unknown}")
        return 0
    found = list(findings(root, json.loads((root / FILE).read_text())["runs"]))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def why_unknown(root: Path) -> str:
    """The reason why git has no history of the file here; "" if it has."""
    is_shallow = git(root, "rev-parse", "--is-shallow-repository")
    if is_shallow is None:
        return "this is no clone, or git is missing"
    if is_shallow != "false":
        return "this is a shallow clone"
    if not git(root, "log", "-1", "--format=%H", "--", FILE):
        return "no commit has it yet"
    return ""


def findings(root: Path, runs: list[dict[str, Any]]) -> Iterator[str]:
    for run in runs:
        commits = age(root, run["commit"])
        if commits > MOST:
            yield (
                f"{FILE}: the figures of {run['date']} are {commits} commits old, at most {MOST}:"
                f" run `{COMMAND}` on a quiet machine, and commit the file and the pages"
            )


def age(root: Path, commit: str) -> int:
    """The number of commits since a run."""
    if git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        commit = git(root, "log", "-1", "--format=%H", "--", FILE) or ""
    return int(git(root, "rev-list", "--count", f"{commit}..HEAD") or 0)


def git(root: Path, *words: str) -> str | None:
    """The output of git; None if git fails or is missing."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    except OSError:
        return None
    return None if done.returncode else done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
