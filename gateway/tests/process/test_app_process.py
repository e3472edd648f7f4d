"""The `tidegate` process: start, serve, stop, and start again, as its users see it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.app_world import (
    PATIENCE_SECONDS,
    Process,
    first_line,
    serving,
    starting,
    tidegate,
)
from tests.worlds.greetings import consume, produce
from tidegate_gateway.cli.dev_zones.server import free_ports

DEV = ("dev", "--port", "0", "--admin-port", "0")


def test_a_gateway_serves_real_clients_and_stops_on_a_signal(tmp_path: Path) -> None:
    with serving(*DEV, "--memory", cwd=tmp_path) as process:
        produce(process.servers, "a", "b")
        assert consume(process.servers, 2) == ["a", "b"]
        assert process.get("/readyz") == (200, "ready\n")
        _, metrics = process.get("/metrics")
        assert 'kafka_log_log_logendoffset{partition="0",topic="greetings"} 2\n' in metrics
        status = json.loads(process.get("/v1/status")[1])
        assert status["cluster_id"] == process.said["cluster_id"]
        # A connected client must not keep the gateway from ending.
        host, port = process.servers.split(":")
        with socket.create_connection((host, int(port))) as client:
            assert process.stop() == (0, "")
            assert client.recv(1) == b""
    assert list(tmp_path.iterdir()) == []


def test_records_outlive_kill_9(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        produce(process.servers, "a")
        first = process.said
        assert process.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    with serving(*DEV, cwd=tmp_path) as process:
        produce(process.servers, "b")
        assert consume(process.servers, 2) == ["a", "b"]
        assert process.said["cluster_id"] == first["cluster_id"]
        assert process.stop(signal.SIGINT) == (0, "")


def test_a_second_signal_is_fast(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        process.popen.send_signal(signal.SIGSTOP)
        process.popen.send_signal(signal.SIGTERM)
        process.popen.send_signal(signal.SIGINT)
        code, errors = process.stop(signal.SIGCONT)
        assert code == 1
        assert "stopping at once" in errors


def test_a_starting_gateway_refuses_clients_and_can_be_stopped(tmp_path: Path) -> None:
    """A connected client waits long for an answer.  A refused client turns to another gateway."""
    port, admin_port = free_ports(2)
    ports = ("--port", str(port), "--admin-port", str(admin_port))
    store = "s3://b/p?endpoint=http://127.0.0.1:1&region=x&skip_signature=true"
    with starting("dev", *ports, "--object-store", store, cwd=tmp_path) as popen:
        assert "the object store does not answer" in first_line(popen, popen.stderr)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        admin = Process(popen, {"admin_url": f"http://127.0.0.1:{admin_port}"})
        assert admin.get("/readyz") == (503, "starting\n")
        assert admin.get("/healthz") == (200, "ok\n")
        popen.terminate()
        printed, _ = popen.communicate(timeout=PATIENCE_SECONDS)
        assert (popen.returncode, printed) == (0, "")


def test_a_gateway_that_was_replaced_says_so(tmp_path: Path) -> None:
    shared = ("--log", "sqlite:shared.db", "--object-store", "file:shared")
    key = ("--set", "instance.key=mine")
    with (
        serving(*DEV, *shared, *key, "--data", "one", cwd=tmp_path) as first,
        serving(*DEV, *shared, *key, "--data", "two", cwd=tmp_path) as second,
    ):
        _, errors = first.popen.communicate(timeout=PATIENCE_SECONDS)
        assert first.popen.returncode == 1
        assert "tidegate: this gateway cannot go on" in errors
        assert "Traceback" not in errors
        assert second.stop()[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--log", "paper:"), "the metadata log cannot be used: no metadata log is called 'paper'"),
        (("--log", "sqlite:no/such/folder.db"), "the metadata log cannot be used: "),
        (("--object-store", "tape:"), "the object store cannot be used: 'tape:' names no"),
        (("--data", "/proc/nothing"), "the data folder /proc/nothing cannot be used"),
        (("--set", "nmu.partitions=1"), "did you mean num.partitions?"),
        (("--set", "node.id=one"), "Invalid value one for configuration node.id"),
        (("--set", "admin.listener=9644"), "admin.listener=9644 is not host:port"),
        (("--host", "0.0.0.0"), "set advertised.listeners=PLAINTEXT://"),
        (("--log-level", "loud"), "choose one of debug, info"),
    ],
)
def test_an_error_that_a_person_can_mend_is_one_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    done = tidegate(*DEV, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert done.stderr.startswith("tidegate: ")
    assert done.stderr.count("\n") == 1


def test_ports_and_folders_in_use(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        port = process.servers.rpartition(":")[2]
        admin_port = process.said["admin_url"].rpartition(":")[2]
        for arguments, sentence in (
            (("--port", port, "--data", "b"), f"port {port} is in use by another program"),
            (("--port", port, "--data", "b"), "choose another with --port, or --port 0"),
            (("--admin-port", admin_port, "--data", "b"), "another with --admin-port, or"),
            ((), "another gateway runs on the data folder tidegate-data"),
        ):
            done = tidegate(*DEV, *arguments, cwd=tmp_path)
            assert done.returncode == 1
            assert sentence in done.stderr


def test_a_gateway_does_not_touch_another_clusters_objects(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path) as process:
        cluster_id = process.said["cluster_id"]
    done = tidegate(*DEV, "--set", "cluster.id=other", cwd=tmp_path)
    assert f"the metadata log is that of cluster {cluster_id}" in done.stderr
    done = tidegate(*DEV, "--log", "memory:", cwd=tmp_path)
    assert done.returncode == 1
    assert f"cluster {cluster_id} owns this prefix" in done.stderr


def test_serve_takes_settings_from_everywhere(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[node]\nid = 5\n[broker]\nrack = "az1"\n')
    (tmp_path / "server.properties").write_text("broker.rack=az2\nlog.dirs=/tmp\n")
    arguments = ("serve", "--config", "t.toml", "--properties", "server.properties")
    with serving(
        *arguments,
        cwd=tmp_path,
        TIDEGATE_LISTENERS="PLAINTEXT://127.0.0.1:0",
        TIDEGATE_ADMIN_LISTENER="127.0.0.1:0",
    ) as process:
        status = json.loads(process.get("/v1/status")[1])
        code, errors = process.stop()

    assert (status["node_id"], status["zone"]) == (5, "az2")
    assert code == 0
    assert '"setting":"log.dirs"' in errors
    assert (tmp_path / "data" / "instance.key").exists()
    for event in ("ready", "stopping", "stopped"):
        assert f'"event":"{event}"' in errors


@pytest.mark.parametrize("option", ["--object-store", "--log"])
def test_missing_credentials_are_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    done = tidegate(*DEV, option, "s3://nope/x?region=r", cwd=tmp_path, HOME=str(tmp_path))
    assert done.returncode == 1
    assert "no credentials were found: set AWS_ACCESS_KEY_ID" in done.stderr
    assert done.stderr.count("\n") == 1


def test_dev_names_the_settings_of_the_environment_that_it_does_not_read(tmp_path: Path) -> None:
    environ = {"TIDEGATE_NUM_PARTITIONS": "7", "TIDEGATE_PORT": "tcp://10.0.0.1:9092"}
    with serving(*DEV, "--memory", cwd=tmp_path, **environ) as process:
        _, errors = process.stop()
    assert errors.startswith("tidegate: TIDEGATE_NUM_PARTITIONS: only `serve` reads settings from")
    assert "--set NAME=VALUE" in errors
    assert errors.count("\n") == 1


def test_other_packages_add_commands(tmp_path: Path) -> None:
    (tmp_path / "stranger.py").write_text(
        "import typer\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def run() -> None:\n"
        "    print('it ran')\n"
    )
    info = tmp_path / "stranger-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[tidegate.commands]\nstrange = stranger:app\nbroken = no_such_module:app\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    done = tidegate("strange", "run", cwd=tmp_path, PYTHONPATH=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "it ran\n", "")
    done = tidegate("--help", cwd=tmp_path, PYTHONPATH=path)
    assert "strange" in done.stdout
    assert "the command 'broken' cannot be loaded" in done.stderr
    assert tidegate("version", cwd=tmp_path, PYTHONPATH=path).stderr == ""


def test_help_and_version(tmp_path: Path) -> None:
    for told in (tidegate("--help", cwd=tmp_path).stdout, tidegate(cwd=tmp_path).stderr):
        for command in ("dev", "serve", "doctor", "log", "simulate"):
            assert f"\n  {command}" in told
    said = tidegate("version", cwd=tmp_path).stdout
    assert said.startswith("tidegate ")
    assert tidegate("--version", cwd=tmp_path).stdout == said


def run_main(cwd: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """Run these lines, and then the main function as `tidegate --help` does, in a new process."""
    script = [
        "import sys",
        "sys.argv = ['tidegate', '--help']",
        *lines,
        "from tidegate_gateway.__main__ import main",
        "main()",
    ]
    command = [sys.executable, "-c", "\n".join(script)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_help_is_quick_since_it_loads_nothing(tmp_path: Path) -> None:
    heavy = "('trio', 'obstore', 'structlog', 'rich', 'tidegate_gateway.gateway')"
    lines = (
        "import atexit",
        f"atexit.register(lambda: print([x for x in {heavy} if x in sys.modules]))",
    )
    assert run_main(tmp_path, *lines).stdout.endswith("\n[]\n")


# Ctrl+C during imports, in a nursery, and together with a bug that must not be hidden.
INTERRUPTED_AT_IMPORT = """
class Interrupted:
    def find_spec(self, name, path, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
"""
INTERRUPTED_IN_A_NURSERY = """
import tidegate_gateway.cli.command as command
def run():
    raise BaseExceptionGroup("a nursery", [BaseExceptionGroup("one in it", [KeyboardInterrupt()])])
command.run = run
"""
BESIDE_A_BUG = """
import tidegate_gateway.cli.command as command
def run():
    raise BaseExceptionGroup("a nursery", [KeyboardInterrupt(), ValueError("a bug")])
command.run = run
"""


def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    for lines in (INTERRUPTED_AT_IMPORT, INTERRUPTED_IN_A_NURSERY):
        done = run_main(tmp_path, lines)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    done = run_main(tmp_path, BESIDE_A_BUG)
    assert done.returncode == 1
    assert "ValueError: a bug" in done.stderr
