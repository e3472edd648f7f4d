""".ci/venv.sh makes a clone's environment, one shell at a time, and generates its codec."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tidegate_gateway.tools import interpreter

SCRIPT = Path(__file__).parents[3] / ".ci" / "venv.sh"
FILES = (
    "pyproject.toml",
    "constraints.txt",
    "hatch_build.py",
    "protocol/tidegate_protocol/record_walk.py",
    "protocol/codegen/module.py",
    "protocol/schema/Heartbeat.txt",
)
PYTHON = """#!/bin/sh
# A stand-in for Python: it records its arguments.
case "$*" in
    *version_info*) mktemp "$MARKS/began.XXXXXX" >/dev/null ;;
    *"import pip"*) test -e "$(dirname "$0")/pip" ;;
    *"-m venv"*) for folder; do :; done; mkdir -p "$folder/bin"
        cp "$0" "$folder/bin/python" ;;
    *"-m pip"*)
        mkdir "$MARKS/busy" 2>/dev/null || echo two at once >> "$MARKS/log"
        while [ "$(ls "$MARKS" | grep -c began)" -lt "$SHELLS" ]; do :; done
        echo installed >> "$MARKS/log"
        rmdir "$MARKS/busy"
        test -z "${FAILS-}" ;;
    *generate.py) echo generated >> "$MARKS/log"
        cd "$(dirname "$1")/tidegate_protocol"
        mkdir -p messages
        cp ../schema/Heartbeat.txt messages/heartbeat.py
        echo x > apis.py ;;
esac
"""


def clone(folder: Path) -> Path:
    """Make a folder with the files that the script reads."""
    root = folder / "clone"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (folder / "marks").mkdir()
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    return root


def begin(folder: Path, shells: int, fails: str = "") -> subprocess.Popen[str]:
    """Start a shell that makes the environment.  It waits until `shells` shells have begun."""
    return subprocess.Popen(
        ["sh", "-euc", f'root="{folder / "clone"}"; . "{SCRIPT}"; make_venv ""; echo made'],
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHON": str(folder / "python"),
            "MARKS": str(folder / "marks"),
            "SHELLS": str(shells),
            "FAILS": fails,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def log(folder: Path, word: str) -> list[str]:
    lines = (folder / "marks" / "log").read_text().splitlines()
    return [each for each in lines if each == word or each == "two at once"]


def test_two_first_starts_at_once_install_once(tmp_path: Path) -> None:
    root = clone(tmp_path)
    shells = [begin(tmp_path, 2) for _ in range(2)]
    said = [each.communicate(timeout=60) for each in shells]
    assert [each.returncode for each in shells] == [0, 0], said
    assert log(tmp_path, "installed") == ["installed"]
    assert not (root / ".venv.lock").is_symlink()


def test_a_start_that_failed_or_was_killed_holds_up_no_later_one(tmp_path: Path) -> None:
    root = clone(tmp_path)
    failing = begin(tmp_path, 1, fails="1")
    failing.communicate(timeout=60)
    assert failing.returncode
    assert not (root / ".venv.lock").is_symlink()
    (root / ".venv.lock").symlink_to(str(failing.pid))  # as after kill -9
    later = begin(tmp_path, 1)
    assert later.communicate(timeout=60)[0] == "made\n"
    assert log(tmp_path, "installed") == ["installed"] * 2


@pytest.mark.parametrize(
    "changed",
    [
        "generate.py",
        "codegen/module.py",
        "schema/Heartbeat.txt",
        "schema/New.txt",
        "tidegate_protocol/apis.py",
        "tidegate_protocol/messages/heartbeat.py",
    ],
)
def test_the_codec_is_generated_again_when_it_or_its_schema_changes(
    tmp_path: Path, changed: str
) -> None:
    def generated() -> int:
        shell = begin(tmp_path, 1)
        assert shell.communicate(timeout=60)[0] == "made\n"
        return len(log(tmp_path, "generated"))

    root = clone(tmp_path)
    assert [generated(), generated()] == [1, 1]
    (root / "protocol" / changed).write_text("changed")
    assert [generated(), generated()] == [2, 2]
    (root / "protocol" / changed).unlink()
    assert generated() == 3


INTERPRETER = SCRIPT.parents[1] / "gateway" / "tidegate_gateway" / "tools" / "interpreter.py"


def chosen(tmp_path: Path, ranks: dict[str, str], **environ: str) -> str:
    """Return the chosen Python.  ranks: by file, the rank that it prints; "": it fails."""
    root = tmp_path / "clone"
    for name, rank in ranks.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        asked = f'[ "$1" = "{root}/gateway/tidegate_gateway/tools/interpreter.py" ] || exit 9'
        file.write_text(f"#!/bin/sh\n{asked}\n{f'echo {rank}' if rank else 'exit 1'}\n")
        file.chmod(0o755)
    folders = dict.fromkeys(str((tmp_path / name).parent) for name in ranks)
    done = subprocess.run(
        ["/bin/sh", "-euc", f'root="{root}"; . "{SCRIPT}"; choose_python; echo "$python"'],
        env={"PATH": ":".join(folders), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("ranks", "wanted"),
    [
        ({"a/python3": "2"}, "a/python3"),
        ({"a/python3": "2", "b/python3": "3"}, "b/python3"),
        ({"a/python3": "2", "b/python3": "2", "b/python3.12": "3"}, "b/python3.12"),
        ({"a/python3": "3", "b/python3": "3"}, "a/python3"),
        # Rank 1: optimised, but without headers.
        ({"a/python3": "1", "b/python3": "2"}, "b/python3"),
        ({"a/python3": "", "b/python3": "0"}, "b/python3"),
        # The script then says what this Python lacks.
        ({"a/python3": "", "b/python3.11": ""}, "python3"),
    ],
)
def test_the_most_suitable_python_is_chosen(
    ranks: dict[str, str], wanted: str, tmp_path: Path
) -> None:
    assert chosen(tmp_path, ranks) == wanted


def test_the_python_that_is_asked_for_is_taken(tmp_path: Path) -> None:
    assert chosen(tmp_path, {"a/python3": "3"}, PYTHON="mine") == "mine"


def test_this_python_has_a_rank(capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, INTERPRETER], check=True)
    assert capfd.readouterr().out.strip() in {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("options", "flag", "is_optimised"),
    [
        ("'--enable-optimizations' '--with-lto'", "-fprofile-use", True),
        ("'--prefix=/usr'", "", True),  # as in Debian's packages
        ("'--prefix=/root'", "-fprofile-use", False),
        (None, None, False),
    ],
)
def test_a_build_says_whether_profiles_optimised_it(
    options: str | None, flag: str | None, is_optimised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"CONFIG_ARGS": options, "PGO_PROF_USE_FLAG": flag}
    monkeypatch.setattr(sysconfig, "get_config_var", values.get)
    assert interpreter.is_optimised() == is_optimised


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_a_python_that_makes_no_environments_has_no_rank(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "find_spec", lambda name: None if name == missing else name)
    with pytest.raises(ModuleNotFoundError, match=missing):
        interpreter.rank()


@pytest.mark.parametrize(
    ("has_compiler", "has_headers", "rank"),
    [(True, True, 2), (True, False, 0), (False, False, 2), (False, True, 2)],
)
def test_headers_count_where_a_compiler_needs_them(
    has_compiler: bool,
    has_headers: bool,
    rank: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if has_headers:
        (tmp_path / "Python.h").touch()
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/cc" if has_compiler else None)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(interpreter, "is_optimised", lambda: False)
    assert interpreter.rank() == rank
