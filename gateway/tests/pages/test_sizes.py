"""The check of sizes: limits, and a list of exceptions that only shrinks."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "sizes.py"
main: Any = runpy.run_path(str(SCRIPT))["main"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    (tmp_path / "part" / "tests").mkdir(parents=True)
    excepted(tmp_path, "")
    return tmp_path


def excepted(tree: Path, lines: str) -> None:
    (tree / ".ci" / "sizes.txt").write_text(lines)


def findings(tree: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    status = main(list(options), tree)
    found = capsys.readouterr().out.splitlines()
    assert status == bool(found)
    return found


def of_lines(count: int) -> str:
    return "x = 1\n" * count


def fields(count: int) -> str:
    return "".join(f"    field_{number}: int\n" for number in range(count))


def test_a_folder_has_at_most_20_python_files(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(20):
        (tree / "part" / f"m{number}.py").write_text("")
    (tree / "part" / "page.md").write_text("")
    (tree / "part" / "tests" / "test_m.py").write_text("")
    assert findings(tree, capsys) == []
    (tree / "part" / "m20.py").write_text("")
    assert findings(tree, capsys) == ["part/: 21 Python files, at most 20: split it"]


def test_a_file_has_at_most_400_lines(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "part" / "m.py").write_text(of_lines(400))
    assert findings(tree, capsys) == []
    (tree / "part" / "tests" / "test_m.py").write_text(of_lines(401))
    assert findings(tree, capsys) == ["part/tests/test_m.py: 401 lines, at most 400: split it"]


@pytest.mark.parametrize(
    ("eight", "ninth"),
    [
        ("class C:\n    def __init__(self, a, b, c, d, /, e, f, g, *, h", ", i): ...\n"),
        ("class C:\n    def __init__(self, a, b, c, d, e, f, *g, h", ", **i): ...\n"),
        (f"@dataclass\nclass C:\n{fields(8)}", "    ninth: int = 0\n"),
        (
            f"@dataclasses.dataclass(frozen=True)\nclass C:\n{fields(8)}",
            "    ninth: InitVar[int]\n",
        ),
        (f"class C(NamedTuple):\n{fields(8)}", "    ninth: int\n"),
        (f"class C(NamedTuple):\n    e: ClassVar = 1\n{fields(8)}", "    ninth: int\n"),
        (f"@dataclass\nclass C:\n    _: KW_ONLY\n{fields(8)}", "    ninth: int = field()\n"),
        (f"@dataclass\nclass C:\n    e: T = field(init=False)\n{fields(8)}", "    ninth: int\n"),
        (f"class Other:\n{fields(9)}\n\n@dataclass\nclass C:\n{fields(8)}", "    ninth: int\n"),
    ],
)
def test_a_constructor_has_at_most_8_parameters(
    eight: str, ninth: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = "" if "@" in eight or "NamedTuple" in eight else "): ...\n"
    (tree / "part" / "m.py").write_text(eight + end)
    assert findings(tree, capsys) == []
    (tree / "part" / "m.py").write_text(eight + ninth)
    assert findings(tree, capsys) == ["part/m.py:C: 9 parameters, at most 8: split it"]


def test_constructors_of_tests_and_generated_messages_are_exempt(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = f"@dataclass\nclass C:\n{fields(9)}"
    (tree / "part" / "tests" / "test_m.py").write_text(wide)
    generated = tree / "protocol" / "tidegate_protocol" / "messages"
    generated.mkdir(parents=True)
    for number in range(21):
        (generated / f"m{number}.py").write_text(wide + of_lines(400))
    assert findings(tree, capsys) == []


def test_counters_may_have_any_number_of_fields(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "part" / "m.py").write_text(f"@dataclass\nclass PartCounters:\n{fields(9)}")
    assert findings(tree, capsys) == []
    init = "    def __init__(self, a, b, c, d, e, f, g, h, i): ...\n"
    (tree / "part" / "m.py").write_text(f"class PartCounters:\n{init}")
    assert findings(tree, capsys) == ["part/m.py:PartCounters: 9 parameters, at most 8: split it"]


def test_an_exception_holds_at_its_figure_only(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tree / "part" / "m.py"
    excepted(tree, "part/m.py 405\n")
    module.write_text(of_lines(405))
    assert findings(tree, capsys) == []
    module.write_text(of_lines(406))
    assert findings(tree, capsys) == ["part/m.py: 406 lines, 405 are listed: split it"]
    smaller = "part/m.py: smaller than listed"
    module.write_text(of_lines(404))
    assert findings(tree, capsys) == [
        f"{smaller}: lower its line to 404 in .ci/sizes.txt (--write)"
    ]
    module.write_text(of_lines(400))
    assert findings(tree, capsys) == [f"{smaller}: remove its line in .ci/sizes.txt (--write)"]
    module.unlink()
    assert findings(tree, capsys) == [f"{smaller}: remove its line in .ci/sizes.txt (--write)"]


def test_write_lowers_and_removes_lines_but_neither_adds_nor_raises_any(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    excepted(tree, "part/gone.py 500\npart/grew.py 405\npart/less.py 410\n")
    (tree / "part" / "grew.py").write_text(of_lines(406))
    (tree / "part" / "less.py").write_text(of_lines(407))
    (tree / "part" / "new.py").write_text(of_lines(401))
    assert findings(tree, capsys, "--write") == [
        "part/grew.py: 406 lines, 405 are listed: split it",
        "part/new.py: 401 lines, at most 400: split it",
    ]
    listed = (tree / ".ci" / "sizes.txt").read_text()
    assert listed == "part/grew.py 405\npart/less.py 407\n"


def test_a_place_that_is_listed_twice_is_refused(tree: Path) -> None:
    excepted(tree, "part/m.py 405\npart/m.py 500\n")
    with pytest.raises(ValueError, match="twice"):
        main([], tree)
