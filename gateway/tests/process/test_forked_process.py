"""A process that tests fork (tests/worlds/forked_process.py) differs in nothing from a real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.app_world import PATIENCE_SECONDS, deadline
from tests.worlds.forked_process import PROGRAM, start_tidegate

DEV = ("dev", "--memory", "--port", "0", "--admin-port", "0", "--json")
PIPES: dict[str, Any] = {each: subprocess.PIPE for each in ("stdin", "stdout", "stderr")}
Start = Callable[..., subprocess.Popen[bytes]]


def start_real(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, *arguments], **options)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("topic",), 2),
        (("dev", "--help"), 0),
        (("topic", "produce", "t", "no\udcff file"), 2),
        (("gateway", "list", "--log", "sqlite:none.db"), 2),
        (("serve", "--set", "listeners=none"), 1),
    ],
)
def test_it_says_and_returns_the_same(words: tuple[str, ...], code: int, tmp_path: Path) -> None:
    environ = {**os.environ, "COLUMNS": "70", "TIDEGATE_NODE_ID": "many"}
    seen = [
        start(words, cwd=tmp_path, env=environ, **PIPES) for start in (start_tidegate, start_real)
    ]
    printed = [each.communicate(timeout=PATIENCE_SECONDS) for each in seen]
    assert printed[0] == printed[1]
    assert [each.returncode for each in seen] == [code, code]


@pytest.fixture
def ignored_hangup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


def what_it_is(start: Start, folder: Path) -> dict[str, Any]:
    """Start a gateway; return what the kernel knows of it, and how it ended."""
    with start(DEV, cwd=folder, env={**os.environ, "MARK": "x"}, **PIPES) as popen:
        assert popen.stdout is not None
        with deadline(popen):
            said = json.loads(popen.stdout.readline())
        place = Path(f"/proc/{popen.pid}")
        lines = [each.split(":\t") for each in (place / "status").read_text().splitlines()]
        found: dict[str, Any] = {
            name: text for name, text in lines if name in ("PPid", "Umask", "SigIgn", "SigCgt")
        }
        files = [os.readlink(each).partition("[")[0] for each in (place / "fd").iterdir()]
        found["files"] = sorted(files)
        found["cwd"] = os.readlink(place / "cwd")
        found["is it"] = said["pid"] == popen.pid
        popen.kill()
        return found | {"code": popen.wait()}


@pytest.mark.usefixtures("ignored_hangup")
def test_the_kernel_sees_the_same(tmp_path: Path) -> None:
    forked = what_it_is(start_tidegate, tmp_path)
    assert forked == what_it_is(start_real, tmp_path)
    assert forked["PPid"] == str(os.getpid())
    assert forked["code"] == -signal.SIGKILL
