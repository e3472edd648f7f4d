"""Gateways that share a metadata log in PostgreSQL, as their users see them."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.worlds.app_world import (
    PATIENCE_SECONDS,
    deadline,
    first_line,
    serving,
    starting,
    tidegate,
)
from tests.worlds.greetings import consume, produce
from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable, MetadataLog
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway import startup

DEV = ("dev", "--port", "0", "--admin-port", "0")


def test_two_gateways_share_a_log_that_is_restarted(postgres_server: Any, tmp_path: Path) -> None:
    url = postgres_server.new_database()
    shared = (*DEV, "--log", url, "--object-store", "file:objects")
    one = (*shared, "--data", "one", "--set", "node.id=1")
    two = (*shared, "--data", "two", "--set", "node.id=2")
    with serving(*one, cwd=tmp_path) as first, serving(*two, cwd=tmp_path) as second:
        assert first.said["metadata_log"] == url.replace("postgres:postgres-of-tests@", "")
        assert first.said["cluster_id"] == second.said["cluster_id"]
        produce(first.servers, "a")
        assert consume(second.servers, 1) == ["a"]
        postgres_server.stop(signal.SIGQUIT)
        postgres_server.start()
        produce(second.servers, "b")
        assert consume(first.servers, 1) == ["b"]
        for each in (first, second):
            code, errors = each.stop()
            assert code == 0
            assert "postgres-of-tests" not in errors
    done = tidegate("doctor", "--log", url, "--json", cwd=tmp_path)
    told = [each for each in json.loads(done.stdout)["checks"] if each["area"] == "metadata log"]
    assert told
    assert all(each["ok"] for each in told), told


def test_verify_keeps_its_promises_on_postgresql(postgres_server: Any, tmp_path: Path) -> None:
    done = tidegate("log", "verify", postgres_server.new_database(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith("promises kept.\n")


def test_a_wrong_password_is_one_sentence(postgres_server: Any, tmp_path: Path) -> None:
    url = postgres_server.new_database().replace("postgres-of-tests", "hidden")
    done = tidegate(*DEV, "--log", url, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tidegate: the metadata log cannot be used: ")
    assert "check user and password" in done.stderr
    assert "hidden" not in done.stderr
    assert done.stderr.count("\n") == 1


# -- a server that is away at the start -----------------------------------------------------------


@contextmanager
def waiting_gateway(server: Any, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Stop PostgreSQL; yield a gateway that has logged that the log fails; start PostgreSQL."""
    url = server.new_database()
    server.stop()
    try:
        with starting(*DEV, "--log", url, "--json", cwd=folder) as popen:
            assert popen.stderr is not None
            with deadline(popen):
                assert any("the metadata log does not answer" in line for line in popen.stderr)
            yield popen
    finally:
        server.start()


def test_a_gateway_waits_for_a_server_that_is_away(postgres_server: Any, tmp_path: Path) -> None:
    with waiting_gateway(postgres_server, tmp_path) as popen:
        postgres_server.start()
        said = json.loads(first_line(popen, popen.stdout))
        produce(said["bootstrap_servers"], "a")
        popen.send_signal(signal.SIGTERM)
        popen.communicate(timeout=PATIENCE_SECONDS)
        assert popen.returncode == 0


def test_a_gateway_that_waits_can_be_stopped(postgres_server: Any, tmp_path: Path) -> None:
    with waiting_gateway(postgres_server, tmp_path) as popen:
        popen.send_signal(signal.SIGTERM)
        printed, _ = popen.communicate(timeout=PATIENCE_SECONDS)
        assert (popen.returncode, printed) == (0, "")


async def test_a_log_is_not_waited_for_without_end(autojump_clock: trio.abc.Clock) -> None:
    async def away() -> MetadataLog:
        await trio.lowlevel.checkpoint()
        raise LogUnavailable("nobody there")

    start = trio.current_time()
    with pytest.raises(LogUnavailable, match="nobody there"):
        await startup.open_patiently(away)
    assert trio.current_time() - start == startup.PATIENCE_SECONDS


async def test_a_log_that_refuses_is_not_waited_for(autojump_clock: trio.abc.Clock) -> None:
    answers: list[Exception] = [LogUnavailable("not yet"), LogMisconfigured("wrong password")]

    async def open_log() -> MetadataLog:
        await trio.lowlevel.checkpoint()
        if answers:
            raise answers.pop(0)
        return MemoryLog()

    with pytest.raises(LogMisconfigured, match="wrong password"):
        await startup.open_patiently(open_log)
    assert isinstance(await startup.open_patiently(open_log), MemoryLog)
