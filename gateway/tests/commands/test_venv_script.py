""".ci/venv.sh, which makes the environment of a clone: one shell at a time."""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / ".ci" / "venv.sh"
FILES = (
    "pyproject.toml",
    "constraints.txt",
    "hatch_build.py",
    "protocol/tidegate_protocol/record_walk.py",
)
PYTHON = """#!/bin/sh
# A Python that is none: it notes what it is asked for.
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
esac
"""


def clone(folder: Path) -> Path:
    """Make what the script reads."""
    root = folder / "clone"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (folder / "marks").mkdir()
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    return root


def begin(folder: Path, shells: int, fails: str = "") -> subprocess.Popen[str]:
    """Start a shell that makes the environment; it waits until so many have begun."""
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


def installs(folder: Path) -> list[str]:
    return (folder / "marks" / "log").read_text().splitlines()


def test_two_first_starts_at_once_install_once(tmp_path: Path) -> None:
    root = clone(tmp_path)
    shells = [begin(tmp_path, 2) for _ in range(2)]
    said = [each.communicate(timeout=60) for each in shells]
    assert [each.returncode for each in shells] == [0, 0], said
    assert installs(tmp_path) == ["installed"]
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
    assert installs(tmp_path) == ["installed"] * 2
