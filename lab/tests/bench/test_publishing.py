"""`tidegate bench published --publish`: the cases that it measures, and its way into the pages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.worlds.published_rows import ROOT, RUN, all_rows, pages_in, rows_of
from tidegate_bench.brokers.worlds import Gateway, World
from tidegate_bench.clients import topics
from tidegate_bench.command import app
from tidegate_bench.errors import BenchError
from tidegate_bench.lab import Case, Lab
from tidegate_bench.measure import header
from tidegate_bench.measure.published import CASES, COMMAND, FILE, from_json, with_cases
from tidegate_bench.measure.samples import Eyes
from tidegate_bench.measure.table import Report, Row
from tidegate_bench.options import Options
from tidegate_bench.publishing import origin, publish
from tidegate_bench.scenarios import published

ALL = Options(vs_kafka=True)


class PaperLab(Lab):
    """A lab whose contests only note where they would measure a case."""

    seen: ClassVar[list[tuple[str, int | None, str]]] = []

    @contextmanager
    def worlds(self, settings: object = None, *, through: object = None) -> Generator[list[World]]:
        yield []

    @contextmanager
    def gateway(
        self, settings: Mapping[str, str] | None = None, *, through: object = None
    ) -> Generator[Gateway]:
        yield PaperGateway(Path(), "memory:", "memory:", settings or {}, None)

    def rivals(self) -> list[World]:
        return []

    def contest(self, brokers: Sequence[World], case: Case) -> list[Row]:
        self.seen.append((self.options.store, self.options.processes, case.label))
        self.rows += (rows := rows_of(case.label))
        return rows


class PaperGateway(Gateway):
    """A gateway that runs nowhere."""

    @property
    def world(self) -> World:
        return World("tidegate", "nowhere:1", Eyes(), is_ours=True)


def measured(monkeypatch: pytest.MonkeyPatch, options: Options) -> Report:
    """Run the scenario on paper."""
    PaperLab.seen.clear()
    monkeypatch.setattr(published, "Lab", PaperLab)
    for name in ("create", "delete"):
        monkeypatch.setattr(topics, name, lambda *_: None)
    with ExitStack() as stack:
        return published.run(PaperLab(options, Console(quiet=True), stack))


def test_the_published_cases_are_measured_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    report = measured(monkeypatch, ALL)
    assert PaperLab.seen == [(each.place.store, each.place.cores, each.label) for each in CASES]
    assert with_cases(RUN, report.rows) == with_cases(RUN, all_rows())


def test_one_of_the_published_cases_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    report = measured(monkeypatch, Options(only=("64c",)))
    assert PaperLab.seen == [("file", 1, "16K 16p 64c plain")]
    assert {row.case for row in report.rows} == {"16K 16p 64c plain"}


def test_published_cases_need_a_gateway_of_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match="not --bootstrap"):
        measured(monkeypatch, Options(bootstrap="h:1"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return pages_in(tmp_path)


def test_a_run_is_written_into_file_and_pages(tree: Path) -> None:
    rows = all_rows()
    publish(RUN, [Report("published", rows)], tree)
    assert from_json((tree / FILE).read_bytes()) == [with_cases(RUN, rows)]
    for page, row in (
        ("README.md", "| the same, 16 KiB batches | files, SQLite, 2026-12-24 | 2.00 ms/MB | 0.50"),
        ("docs/performance.md", "| the same, 16 KiB batches | files, SQLite | 2.00 (1.50-2.25)"),
    ):
        text = (tree / page).read_text()
        assert row in text
        assert "Z80" in text


def test_a_run_without_a_figure_publishes_nothing(tree: Path) -> None:
    before = (tree / FILE).read_bytes()
    rows = all_rows()[:-1]
    with pytest.raises(BenchError, match=r"the run has no \('idle ack no budget', 'kafka'\)"):
        publish(RUN, [Report("published", rows)], tree)
    assert (tree / FILE).read_bytes() == before


def test_pages_that_cannot_be_written_are_told(tree: Path) -> None:
    (tree / "README.md").write_text("no part")
    with pytest.raises(BenchError, match=r"(?s)the pages are not:.*begin benchmarks"):
        publish(RUN, [Report("published", all_rows())], tree)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, in the place of this one."""
    folder = tmp_path / "clone"
    monkeypatch.setattr(header, "ROOT", folder)
    (folder / "docs").mkdir(parents=True)
    for name in ("code.py", "page.md", "docs/benchmarks.json"):
        (folder / name).write_text("old")
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    identity = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
    git(folder, *identity, "commit", "--quiet", "--message", "Change")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_run_names_its_commit_and_machine(clone: Path) -> None:
    for name in ("page.md", "docs/benchmarks.json"):
        (clone / name).write_text("new")  # as after a run that was not committed yet
    found = origin(["published"], ALL)
    assert found.commit == git(clone, "rev-parse", "HEAD")
    assert found.python.startswith(f"{sys.version.split()[0]}, ")
    assert " cores (" in found.machine
    assert str(ROOT) not in str(found)


def test_changed_code_is_not_published(clone: Path) -> None:
    (clone / "code.py").write_text("new")
    with pytest.raises(BenchError, match="commit or revert your changes"):
        origin(["published"], ALL)


@pytest.mark.parametrize("is_committed", [False, True])
def test_code_that_changes_during_the_run_is_not_published(
    *, is_committed: bool, clone: Path, tree: Path
) -> None:
    found, before = origin(["published"], ALL), (tree / FILE).read_bytes()
    (clone / "code.py").write_text("new")
    if is_committed:
        commit(clone)
    with pytest.raises(BenchError, match="nothing is published: the code changed"):
        publish(found, [Report("published", all_rows())], tree)
    assert (tree / FILE).read_bytes() == before


def test_pages_may_change_during_the_run(clone: Path, tree: Path) -> None:
    found = origin(["published"], ALL)
    (clone / "page.md").write_text("new")
    commit(clone)
    publish(found, [Report("published", all_rows())], tree)
    assert from_json((tree / FILE).read_bytes())[0].commit == found.commit


@pytest.mark.parametrize("path", ["", None])
def test_without_a_commit_nothing_is_published(
    path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header, "ROOT", tmp_path)
    if path is not None:
        monkeypatch.setenv("PATH", path)
    with pytest.raises(BenchError, match="it needs git"):
        origin(["published"], ALL)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["ingest"], ALL),
        (["published", "ingest"], ALL),
        (["published"], Options()),
        (["published"], Options(vs_kafka=True, quick=True)),
        (["published"], Options(vs_kafka=True, only=("64c",))),
    ],
)
def test_another_run_is_not_published(names: list[str], options: Options) -> None:
    with pytest.raises(BenchError, match=COMMAND):
        origin(names, options)


def test_the_command_is_one_that_can_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header, "ROOT", tmp_path)  # no clone, so that each ends with an error
    words = COMMAND.removeprefix("./tidegate bench ").split()
    for more, sentence in (((), "needs git"), (("--quick",), "goes with no other option")):
        ended = CliRunner().invoke(app, [*words, *more])
        assert ended.exit_code == 1
        assert sentence in ended.output
