"""Every module of compat-tests can be imported, and every program says how it is called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module

import pytest
from harness.install import MissingTool
from harness.places import HERE
from runner import __main__ as command
from runner.options import option, parsed, unasked
from runner.result import Result, WrongOption
from runner.shared import NoOptions, Seeded
from runner.table import PROGRAMS, Program

# A warning of kafka-python at its first import.
pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

OTHERS = {"clients", "tests", ".work"}  # programs for other interpreters, and tests
IN_CONTAINERS = {"image.container_suite"}  # reads its path when it is imported


def modules() -> list[str]:
    """Return the names of all modules, as they are imported."""
    found = (each.relative_to(HERE).with_suffix("").parts for each in HERE.rglob("*.py"))
    names = {".".join(each).removesuffix(".__init__") for each in found if each[0] not in OTHERS}
    return sorted(names - IN_CONTAINERS)


@pytest.mark.parametrize("name", modules())
def test_a_module_can_be_imported(name: str) -> None:
    import_module(name)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_a_program_tells_its_options(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([program.name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"compat-tests/run {program.name}" in shown
    assert "--json" in shown


def test_names_are_used_once_and_the_page_has_all() -> None:
    names = [each.name for each in PROGRAMS]
    assert len(set(names)) == len(names)
    page = (HERE / "README.md").read_text()
    listed = set(re.findall(r"[a-z][a-z0-9.-]+", " ".join(re.findall(r"^\| ([^|]+)", page, re.M))))
    assert set(names) - listed - {"all"} == set()


def test_the_command_lists_all_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"  {each.name} " in shown and each.says in shown for each in PROGRAMS)


@dataclass(frozen=True)
class Options(Seeded):
    """Options of each kind."""

    folder: str = option(says="of the run", flag="--in")
    rate: int = 7
    is_hurt: bool = option(False, flag="--hurt")
    verify: bool = True
    kinds: tuple[str, ...] = option(("a", "b"), separator=";", choices=("a", "b", "c d"))
    names: tuple[str, ...] = option((), "of parts", is_positional=True, choices=("x", "y"))
    pause: float = unasked(0.5)


def test_options_are_read_by_their_types() -> None:
    words = ["--in", "here", "--rate", "9", "--hurt", "--no-verify", "--kinds", "b;c d", "x"]
    found = parsed(Options, [*words, "--seed", "5"])
    assert found == Options(
        seed=5,
        folder="here",
        rate=9,
        is_hurt=True,
        verify=False,
        kinds=("b", "c d"),
        names=("x",),
    )
    assert parsed(Options, ["--in", "here"]) == Options(folder="here")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--in", "here", "--rate", "fast"],
        ["--in", "here", "--kinds", "a;d"],
        ["--in", "here", "z"],
        ["--in", "here", "--pause", "1"],
        ["--in", "here", "--hur"],
    ],
)
def test_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(Options, words)
    assert ended.value.code == 2


def good(options: Options) -> Result:
    """A program whose figures differ from its text."""
    return Result(is_good=True, text=f"rate {options.rate}", figures={"rate": options.rate})


def bad(options: NoOptions) -> Result:
    """A program without a text."""
    return Result(is_good=False, figures={"lost": 1})


def unable(options: NoOptions) -> Result:
    """A program that lacks a tool."""
    raise MissingTool("no such tool")


def wrong(options: NoOptions) -> Result:
    """A program whose options do not go together."""
    raise WrongOption("not together")


@pytest.mark.parametrize(
    ("name", "words", "status", "printed"),
    [
        ("good", ["--in", "here"], 0, "rate 7\n"),
        ("good", ["--in", "here", "--json"], 0, '{"rate":7}\n'),
        ("bad", [], 1, '{\n  "lost": 1\n}\n'),
        ("unable", [], 2, ""),
    ],
)
def test_the_exit_status_is_the_verdict(
    name: str,
    words: list[str],
    status: int,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "PROGRAMS", (Program(name, f"{__name__}:{name}", "says"),))
    assert command.main([name, *words]) == status
    assert capsys.readouterr().out == printed


def test_options_that_do_not_go_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PROGRAMS", (Program("wrong", f"{__name__}:wrong", "says"),))
    with pytest.raises(SystemExit) as ended:
        command.main(["wrong"])
    assert ended.value.code == 2
    assert "not together" in capsys.readouterr().err
