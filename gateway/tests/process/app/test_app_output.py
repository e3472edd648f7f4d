"""A gateway whose output fails or blocks continues to serve, and ends when it is asked to."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import trustme

from tests.worlds.app_world import PATIENCE_SECONDS, deadline, serving, serving_with, tidegate
from tests.worlds.greetings import consume, produce
from tidegate_runtime.line_rates import STRANGERS_LINES

DEV = ("dev", "--port", "0", "--admin-port", "0", "--memory", "--json")
STRANGERS = 60
PIPE_BYTES = 4096
"""The least that Linux grants; the strangers' lines are more."""


@contextmanager
def a_full_pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        yield writing
    finally:
        os.close(reading)
        os.close(writing)


@contextmanager
def a_closed_pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


@contextmanager
def a_full_disk() -> Iterator[int]:
    writing = os.open("/dev/full", os.O_WRONLY)
    try:
        yield writing
    finally:
        os.close(writing)


def strangers(servers: str, count: int = STRANGERS) -> None:
    """Connect and send nonsense.  The gateway logs why it closes each connection."""
    host, port = servers.split(":")
    for _ in range(count):
        with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as client:
            client.sendall(b"\xff" * 64)
            assert client.recv(1) == b""


@pytest.mark.parametrize("trouble", [a_full_pipe, a_closed_pipe, a_full_disk])
def test_a_gateway_serves_on_whatever_becomes_of_its_log_lines(
    trouble: Callable[[], AbstractContextManager[int]], tmp_path: Path
) -> None:
    with trouble() as stderr, serving_with(stderr, *DEV, cwd=tmp_path) as process:
        produce(process.servers, "before")
        strangers(process.servers)
        produce(process.servers, *(f"{number}" for number in range(100)))
        assert process.get("/livez") == (200, "ok\n")
        assert process.get("/readyz") == (200, "ready\n")
        kept = consume(process.servers, 101)
        assert kept == ["before", *(f"{number}" for number in range(100))]
        process.popen.terminate()
        assert process.popen.wait(PATIENCE_SECONDS) == 0


def test_the_lines_of_a_pipe_that_is_read_late_are_all_there(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with (
        open(reading, encoding="utf-8") as lines,
        serving_with(writing, *DEV, "--log-level", "info", cwd=tmp_path) as process,
    ):
        os.close(writing)
        strangers(process.servers)
        assert process.get("/livez") == (200, "ok\n")
        process.popen.terminate()
        with deadline(process.popen):
            events = [json.loads(each)["event"] for each in lines]
        assert process.popen.wait(PATIENCE_SECONDS) == 0
    assert events.count("closed a connection") == STRANGERS
    assert events[-1] == "stopped"


def test_the_lines_of_many_strangers_are_bounded_and_counted(tmp_path: Path) -> None:
    with serving(*DEV[:-1], cwd=tmp_path) as process:
        strangers(process.servers, 3 * STRANGERS_LINES)
        _, metrics = process.get("/metrics")
        _, errors = process.stop()
    left_out = re.search(r"^tidegate_log_left_out_lines_total (\d+)", metrics, re.MULTILINE)
    assert left_out is not None
    written = errors.count('"closed a connection"')
    assert STRANGERS_LINES <= written == 3 * STRANGERS_LINES - int(left_out[1])
    assert int(left_out[1])


@pytest.mark.parametrize("trouble", [a_full_pipe, a_closed_pipe])
def test_a_log_is_served_on_whatever_becomes_of_its_log_lines(
    trouble: Callable[[], AbstractContextManager[int]], tmp_path: Path
) -> None:
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1")
    (tmp_path / "server.pem").write_bytes(server.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    command = ("log", "serve", "memory:", "--listen", "127.0.0.1:0", "--keystore", "server.pem")
    with (
        trouble() as stderr,
        serving_with(stderr, *command, "--json", cwd=tmp_path) as process,
    ):
        url = process.said["url"]
        strangers(url.removeprefix("https://"))  # no message is sent over TLS
        done = tidegate("log", "verify", f"{url}?ca-file=ca.pem", cwd=tmp_path)
        assert done.returncode == 0
        process.popen.terminate()
        assert process.popen.wait(PATIENCE_SECONDS) == 0


def test_a_supervisor_whose_log_pipe_is_closed_starts_gateways_again(tmp_path: Path) -> None:
    settings = ("listeners=PLAINTEXT://127.0.0.1:0", "admin.listener=127.0.0.1:0")
    options = [word for each in settings for word in ("--set", each)]
    serve = ("serve", "--processes", "2", "--data", "data", "--json", *options)
    with a_closed_pipe() as stderr, serving_with(stderr, *serve, cwd=tmp_path) as process:
        os.kill(process.said["processes"][1], signal.SIGKILL)
        with deadline(process.popen):
            while 'restarts_total{process="2"} 1' not in (metrics := process.get("/metrics")[1]):
                pass
        assert (
            'tidegate_output_dropped_lines_total{process="supervisor",output="stderr"} 0' in metrics
        )
        process.popen.terminate()
        assert process.popen.wait(PATIENCE_SECONDS) == 0
