"""The check of the published figures' age, on small repositories with linear histories."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tidegate_bench.measure.published import COMMAND, FILE

SCRIPT: Any = runpy.run_path(str(Path(__file__).parents[3] / ".ci" / "bench_age.py"))
UNKNOWN = "f" * 40
MAIN = "refs/heads/main"


def git(folder: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, input=given, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commits(tree: Path, count: int, *, changing: str = "") -> None:
    """Add commits to the branch, all in one process.  Each changes this file, or nothing."""
    there = int(git(tree, "rev-list", "--all", "--count"))
    lines = ["feature done"]
    for number in range(there, there + count):
        lines += [f"commit {MAIN}", f"committer n <e> {number} +0000", "data 0"]
        if there and number == there:
            lines.append(f"from {MAIN}^0")
        if changing:
            lines += [f"M 644 inline {changing}", "data <<END", f"{number}", "END"]
    git(tree, "fast-import", "--quiet", given="\n".join([*lines, "done", ""]))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit, which has the file; the working copy of the file names it."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "docs").mkdir()
    commits(tmp_path, 1, changing=FILE)
    name(tmp_path, git(tmp_path, "rev-parse", "HEAD"))
    return tmp_path


def name(tree: Path, *of_runs: str) -> None:
    runs = [{"date": f"2026-12-0{day}", "commit": each} for day, each in enumerate(of_runs, 1)]
    (tree / FILE).write_text(json.dumps({"runs": runs}))


def checked(tree: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = SCRIPT["main"](tree)
    return status, capsys.readouterr().out


def too_old(count: int, day: str = "2026-12-01") -> tuple[int, str]:
    return 1, (
        f"{FILE}: the figures of {day} are {count} commits old, at most 300:"
        f" run `{COMMAND}` on a quiet machine, and commit the file and the pages\n"
    )


def test_figures_may_be_300_commits_old(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tree, capsys) == (0, "")
    commits(tree, 300)
    assert checked(tree, capsys) == (0, "")
    commits(tree, 1)
    assert checked(tree, capsys) == too_old(301)


def test_each_run_has_an_age(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = git(tree, "rev-parse", "HEAD")
    commits(tree, 301)
    name(tree, git(tree, "rev-parse", "HEAD"), first)
    assert checked(tree, capsys) == too_old(301, "2026-12-02")


def test_a_rebased_commit_is_as_old_as_the_file(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name(tree, UNKNOWN)
    commits(tree, 200)
    commits(tree, 1, changing=FILE)
    commits(tree, 300, changing="other")
    assert checked(tree, capsys) == (0, "")
    commits(tree, 1)
    assert checked(tree, capsys) == too_old(301)


def test_a_commit_of_another_branch_is_one_that_was_rebased(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clone that has this commit must compute the same age as a clone that lacks it."""
    first = git(tree, "rev-parse", "HEAD")
    commits(tree, 5)
    name(tree, git(tree, "rev-parse", "HEAD"))
    git(tree, "branch", "aside")
    git(tree, "update-ref", MAIN, first)
    commits(tree, 301, changing="other")
    commits(tree, 1, changing=FILE)
    assert checked(tree, capsys) == (0, "")


def test_a_shallow_clone_passes(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    commits(tree, 301)
    shallow = tmp_path_factory.mktemp("clones") / "shallow"
    git(tree, "clone", "--quiet", "--depth", "1", f"file://{tree}", str(shallow))
    assert checked(shallow, capsys) == (
        0,
        f"the age of {FILE} is not checked: this is a shallow clone\n",
    )


def test_an_archive_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    name(tmp_path, UNKNOWN)
    no_clone = (0, f"the age of {FILE} is not checked: this is no clone, or git is missing\n")
    assert checked(tmp_path, capsys) == no_clone


def test_a_machine_without_git_passes(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commits(tree, 301)
    monkeypatch.setenv("PATH", "")
    assert checked(tree, capsys)[0] == 0
    assert "git is missing" in SCRIPT["why_unknown"](tree)


def test_a_file_that_no_commit_has_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "docs").mkdir()
    name(tmp_path, UNKNOWN)
    assert checked(tmp_path, capsys) == (
        0,
        f"the age of {FILE} is not checked: no commit has it yet\n",
    )
