"""deploy/systemd: the unit is valid and restricted, and a gateway notifies systemd as Type=notify
asks.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.worlds.app_world import PATIENCE_SECONDS, first_line, serving, starting

SYSTEMD = Path(__file__).parents[3] / "deploy" / "systemd"
UNIT = SYSTEMD / "tidegate.service"
DEV = ("dev", "--port", "0", "--admin-port", "0")
MAX_EXPOSURE = 2.5

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)


@contextmanager
def manager(folder: Path) -> Iterator[socket.socket]:
    """Yield the socket folder/notify, which systemd would read."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(folder / "notify"))
        server.settimeout(PATIENCE_SECONDS)
        yield server


def told(server: socket.socket) -> set[str]:
    return set(server.recv(4096).decode().split("\n"))


def told_at_last(server: socket.socket, line: str) -> list[set[str]]:
    """Return all messages up to the first one that contains the line."""
    messages = [told(server)]
    while line not in messages[-1]:
        messages.append(told(server))
    return messages


def test_a_gateway_says_what_it_does_and_that_its_loop_runs(tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
    with manager(tmp_path) as server, serving(*DEV, "--memory", cwd=tmp_path, **environ) as process:
        begin = told_at_last(server, "READY=1")
        assert begin[0] == {"STATUS=starting", "EXTEND_TIMEOUT_USEC=400000"}
        fed = told_at_last(server, "WATCHDOG=1")[-1]
        assert fed == {"READY=1", "STATUS=serving clients", "WATCHDOG=1"}
        assert told(server) == fed
        process.popen.send_signal(signal.SIGTERM)
        end = told_at_last(server, "STOPPING=1")
        assert end[-1] == {"STOPPING=1", "STATUS=draining"}
        assert process.popen.wait(PATIENCE_SECONDS) == 0


def test_a_gateway_that_waits_for_its_store_is_not_taken_for_stalled(tmp_path: Path) -> None:
    store = "s3://b/p?endpoint=http://127.0.0.1:1&region=x&skip_signature=true"
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with (
        manager(tmp_path) as server,
        starting(*DEV, "--object-store", store, cwd=tmp_path, **environ) as popen,
    ):
        assert "the object store does not answer" in first_line(popen, popen.stderr)
        while "WATCHDOG=1" not in (fed := told(server)):
            pass
        assert fed == {"STATUS=starting", "EXTEND_TIMEOUT_USEC=200000", "WATCHDOG=1"}
        popen.terminate()
        assert popen.wait(PATIENCE_SECONDS) == 0


def test_the_supervisor_of_several_gateways_speaks_for_all(tmp_path: Path) -> None:
    """systemd accepts messages of the main process only."""
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "60000000"}
    ports = ("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "node.id=1")
    command = ("serve", *ports, "--data", "data", "--processes", "2")
    with manager(tmp_path) as server, serving(*command, cwd=tmp_path, **environ) as process:
        assert process.stop()[0] == 0
        server.setblocking(False)
        states = []
        with suppress(BlockingIOError):
            while True:
                states.append(told(server))
    said = [each for each in states if "WATCHDOG=1" not in each]
    assert said == [
        {"STATUS=starting", "EXTEND_TIMEOUT_USEC=60000000"},
        {"READY=1", "STATUS=serving clients"},
        {"STOPPING=1", "STATUS=draining"},
    ]


def test_the_first_process_of_a_container_ends_while_it_still_loads() -> None:
    """The kernel drops a SIGTERM to process 1 unless the process has a handler."""
    program = (
        "import os, signal, sys, types\n"
        "os.getpid = lambda: 1\n"
        "import tidegate_gateway.__main__ as main\n"
        "command = types.ModuleType('tidegate_gateway.cli.command')\n"
        "command.run = lambda: signal.raise_signal(signal.SIGTERM)\n"
        "sys.modules['tidegate_gateway.cli.command'] = command\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=PATIENCE_SECONDS)
    assert done.returncode == 128 + signal.SIGTERM


@needs_systemd
def test_the_unit_is_valid_and_closed(tmp_path: Path) -> None:
    text = UNIT.read_text()
    assert text.count("ExecStart=/opt/tidegate/bin/tidegate ") == 1
    unit = tmp_path / UNIT.name
    # The verification fails if the program does not exist.
    unit.write_text(text.replace("/opt/tidegate/bin/tidegate", sys.executable))
    verified = run("systemd-analyze", "verify", "--man=no", str(unit))
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    judged = run("systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit))
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", judged.stdout)
    assert exposure is not None, judged.stdout + judged.stderr
    assert float(exposure[1]) <= MAX_EXPOSURE


@needs_systemd
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_user_and_folder_of_settings(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (etc / "group").write_text("root:x:0:\n")
    root = f"--root={tmp_path}"
    users = run("systemd-sysusers", root, str(SYSTEMD / "tidegate.sysusers.conf"))
    assert users.returncode == 0, users.stderr
    row = re.search(r"^tidegate:x:\d+:(\d+):", (etc / "passwd").read_text(), re.MULTILINE)
    assert row is not None
    files = run("systemd-tmpfiles", "--create", root, str(SYSTEMD / "tidegate.tmpfiles.conf"))
    assert files.returncode == 0, files.stderr
    folder = (etc / "tidegate").stat()
    assert (folder.st_mode & 0o7777, folder.st_uid, folder.st_gid) == (0o750, 0, int(row[1]))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
