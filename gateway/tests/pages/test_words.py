"""The check of words finds riddles, by file and line, and accepts plain sentences and code."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / ".ci" / "words.py"
# The riddles are in another file, since this module must pass the check itself.
RIDDLES = (Path(__file__).parent / "riddles.txt").read_text().splitlines()
POLLS = RIDDLES[4]


def checked(path: Path, text: str) -> list[tuple[int, str]]:
    path.write_text(text)
    found: Any = runpy.run_path(str(SCRIPT))["findings"](path)
    return [(line, what.split('"')[1] if '"' in what else what) for line, what in found]


@pytest.mark.parametrize("riddle", RIDDLES)
def test_riddles_are_found_wherever_prose_is(riddle: str, tmp_path: Path) -> None:
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    assert checked(page, f"# A page\n\nFirst.\n\n{riddle}\n")[0][0] == 5
    assert checked(page, f"| a | b |\n|---|---|\n| plain | {riddle} |\n")[0][0] == 3
    assert checked(module, f'"""Plain.\n\n{riddle}\n"""\n')[0][0] == 3
    assert checked(module, f"x = 1  # {riddle}\n")[0][0] == 1
    assert checked(module, f'LOG = (\n    "the gateway stands still.  "\n    "{riddle}"\n)\n')


@pytest.mark.parametrize(
    "plain",
    [
        "Who reads this?",
        "What is a run?",
        "The gateway that creates a cluster marks its prefix.",
        "A replica behind a load balancer is not asked.",
        "`who loses` is code.",
    ],
)
def test_plain_sentences_pass(plain: str, tmp_path: Path) -> None:
    assert checked(tmp_path / "page.md", f"{plain}\n") == []


def test_a_sentence_that_is_wrapped_is_named_by_its_line(tmp_path: Path) -> None:
    assert checked(tmp_path / "page.md", "It is an answer. Then it\nis\n" + "told.\n") == [
        (2, "is told")
    ]
    text = (
        "def f():\n    # One line.\n    # A proposal\n    # comes" + ' true.\n    return f"{f}"\n'
    )
    assert checked(tmp_path / "module.py", text) == [(4, "comes true")]


def test_code_and_the_list_of_what_not_to_say_are_no_prose(tmp_path: Path) -> None:
    fenced = f"```text\n{POLLS}\n```\n"
    indented = f"Run:\n\n    {POLLS}\n\n- Or:\n\n      {POLLS}\n"
    table = f"| do not say | say |\n|---|---|\n| {POLLS} | no gateway |\n"
    assert checked(tmp_path / "page.md", f"{fenced}\n{indented}\n{table}") == []
    assert checked(tmp_path / "module.py", 'NAMES = {"nobody": "comes true"}\n') == []


@pytest.mark.parametrize("word", ["What", "Whatever", "Whoever", "Those"])
def test_a_docstring_begins_with_a_verb_or_a_thing(word: str, tmp_path: Path) -> None:
    begun = f'"""{word} it holds."""'
    for module, line in (
        (f"{begun}\n", 1),
        (f"class C:\n    {begun}\n", 2),
        (f"async def f():\n    {begun}\n", 2),
        (f"x = 1\n{begun}\n", 2),
    ):
        assert checked(tmp_path / "module.py", module)[0] == (line, word)
    fine = f'"""See {word}."""\ny = "{word} it holds"\n# {word} it holds.\n"""Whatsoever."""\n'
    assert word == "Whoever" or checked(tmp_path / "module.py", fine) == []


def test_parts_that_a_program_writes_are_checked_at_their_source(tmp_path: Path) -> None:
    page = f"<!-- begin settings -->\n{POLLS}\n<!-- end settings -->\n{POLLS}\n"
    assert checked(tmp_path / "page.md", page) == [(4, "Nobody")]


def test_prose_is_wrapped_but_tables_code_and_links_are_not(tmp_path: Path) -> None:
    wide = "wide " * 21
    found = checked(
        tmp_path / "page.md",
        f"- {wide}\n\n  {wide}\n\n    {wide}\n\n| {wide} |\n\n```\n{wide}\n```\n\n"
        f"A [page](https://example.org/{'x' * 90}).\n",
    )
    assert [line for line, _ in found] == [1, 3, 5]


def test_the_pages_of_this_repository_pass() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_files_of_other_kinds_are_passed_over(tmp_path: Path) -> None:
    assert checked(tmp_path / "Fetch.txt", f"api 1 Fetch\n{POLLS}\n") == []


def test_any_path_can_be_checked(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"{POLLS}\n")
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.startswith(f'{tmp_path}/page.md:1: "Nobody": ')
