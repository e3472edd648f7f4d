"""running_gateway(), for other projects' tests: it serves, and leaves no process or file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from tests.worlds.app_world import PATIENCE_SECONDS, deadline
from tests.worlds.greetings import consume, produce
from tidegate_gateway.testing import GatewayFailed, gateway_process, running, running_gateway
from tidegate_gateway.testing.child import MAX_OUTPUT_BYTES, ShortFile
from tidegate_gateway.testing.gateway_process import GatewayProcess, Value
from tidegate_gateway.testing.topics import TopicRefused, create_topic

CALLER = """\
import sys
from tidegate_gateway.testing import running_gateway
with running_gateway() as bootstrap:
    print(bootstrap, flush=True)
    sys.stdin.read()
"""
MODULES = """\
import sys
before = set(sys.modules)
import tidegate_gateway.testing, tidegate_gateway.testing.plugin
print(*(set(sys.modules) - before - set(sys.stdlib_module_names)), sep="\\n")
"""


def connected(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_SECONDS)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def kill(pid: int) -> None:
    """Kill a child, and wait until it has ended."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[GatewayProcess]:
    """Return the processes that running_gateway() has started."""
    found: list[GatewayProcess] = []

    class Kept(GatewayProcess):
        def __init__(self, settings: dict[str, Value]) -> None:
            super().__init__(settings)
            found.append(self)

    monkeypatch.setattr(running, "GatewayProcess", Kept)
    return found


@contextmanager
def caller() -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """Yield a program that runs a gateway until its input ends, and a connection to the gateway."""
    with subprocess.Popen(
        [sys.executable, "-c", CALLER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as popen:
        try:
            assert popen.stdout is not None
            with deadline(popen):
                bootstrap = popen.stdout.readline().strip()
            with connected(bootstrap) as connection:
                yield popen, connection
        finally:
            popen.kill()


def test_clients_write_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trio.py").write_text("raise SystemExit('a module of the tests')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_NODE_ID", "of another gateway")
    with running_gateway() as bootstrap:
        assert bootstrap.startswith("127.0.0.1:")
        produce(bootstrap, "a", "b")
        assert consume(bootstrap, 2) == ["a", "b"]
    with pytest.raises(ConnectionRefusedError):
        connected(bootstrap)
    assert [each.name for each in tmp_path.iterdir()] == ["trio.py"]


def test_settings_hold_and_topics_are_created(started: list[GatewayProcess]) -> None:
    with running_gateway({"num.partitions": 3, "auto.create.topics.enable": False}) as bootstrap:
        create_topic(bootstrap, "five", 5, {"cleanup.policy": "compact"})
        create_topic(bootstrap, "as-set")
        for name in ("five", "as-set"):
            with pytest.raises(TopicRefused, match=f"topic {name}: TOPIC_ALREADY_EXISTS: "):
                create_topic(bootstrap, name)
        with pytest.raises(TopicRefused, match="topic x: INVALID_CONFIG: "):
            create_topic(bootstrap, "x", configs={"cleanup.policy": "sometimes"})
    with pytest.raises(TopicRefused, match=r"does not answer: .*without TLS and SASL"):
        create_topic(bootstrap, "five")


def test_nothing_is_left_of_it_also_at_an_exception(
    started: list[GatewayProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files = os.listdir("/proc/self/fd")
    with pytest.raises(ZeroDivisionError), running_gateway():
        assert os.getsid(started[0].popen.pid) // 0
    assert is_gone(started[0].popen.pid)
    assert os.listdir("/proc/self/fd") == files
    assert list(tmp_path.iterdir()) == []


def test_several_run_at_once_in_threads() -> None:
    meeting = Barrier(2, timeout=PATIENCE_SECONDS)

    def run() -> str:
        with running_gateway() as bootstrap:
            _ = meeting.wait()
            connected(bootstrap).close()
            _ = meeting.wait()
        return bootstrap

    with ThreadPoolExecutor(2) as threads:
        assert len({each.result() for each in [threads.submit(run) for _ in range(2)]}) == 2


def test_the_callers_process_loads_neither_trio_nor_the_gateway() -> None:
    words = [sys.executable, "-c", "import pytest\n" + MODULES]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert sorted(loaded) == [
        "tidegate_gateway",
        "tidegate_gateway.testing",
        "tidegate_gateway.testing.gateway_process",
        "tidegate_gateway.testing.plugin",
        "tidegate_gateway.testing.running",
    ]


def test_a_gateway_that_does_not_start_is_quoted() -> None:
    with (
        pytest.raises(GatewayFailed, match=r"did not start.*\n.*did you mean num\.partitions\?"),
        running_gateway({"num.partitons": 3}),
    ):
        pass


def test_a_gateway_that_does_not_serve_in_time_is_ended(started: list[GatewayProcess]) -> None:
    with (
        pytest.raises(GatewayFailed, match=r"did not serve within 0 s, and printed nothing"),
        running_gateway(start_seconds=0.0),
    ):
        pass
    assert is_gone(started[0].popen.pid)


def test_a_gateway_that_ends_by_itself_fails_the_block(started: list[GatewayProcess]) -> None:
    with (
        pytest.raises(GatewayFailed, match=r"ended with exit code -9, and printed nothing"),
        running_gateway(),
    ):
        kill(started[0].popen.pid)


def test_a_gateway_that_does_not_stop_is_killed(
    started: list[GatewayProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_process, "STOP_SECONDS", 0.01)
    with running_gateway():
        assert (
            os.getsid(started[0].popen.pid) == started[0].popen.pid
        )  # a Ctrl+C in a terminal does not reach it
        os.kill(started[0].popen.pid, signal.SIGSTOP)
    assert is_gone(started[0].popen.pid)


@pytest.fixture
def ctrl_c_interrupts() -> Iterator[None]:
    """Let a SIGINT reach the test's processes, even if a shell runs the tests with `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_interrupts")
def test_ctrl_c_ends_it() -> None:
    with caller() as (popen, connection):
        os.killpg(popen.pid, signal.SIGINT)
        assert connection.recv(1) == b""
        assert "KeyboardInterrupt" in popen.communicate(timeout=PATIENCE_SECONDS)[1]


def test_it_ends_with_a_caller_that_is_killed() -> None:
    with caller() as (popen, connection):
        popen.kill()
        assert connection.recv(1) == b""


def test_its_output_stays_short(tmp_path: Path) -> None:
    with (tmp_path / "output").open("ab") as file:
        output = ShortFile(file.fileno(), "w", closefd=False)
        for size in (MAX_OUTPUT_BYTES, 1, 2):
            assert output.write(b"x" * size) == size
        assert os.fstat(file.fileno()).st_size == 2
