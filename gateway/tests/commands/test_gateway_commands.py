"""`tidegate gateway list`, `drain`, `undrain` and `version`, as an operator runs them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate
from tidegate_coordination.events.metadata_versions import NEWEST

LOG = ("--log", "sqlite:metadata.db")


@contextmanager
def gateways(folder: Path, *node_ids: int) -> Iterator[dict[int, Process]]:
    with ExitStack() as stack:
        running: dict[int, Process] = {}
        for node_id in node_ids:
            named = [
                f"node.id={node_id}",
                f"broker.rack=zone-{node_id}",
                "listeners=PLAINTEXT://127.0.0.1:0",
                "admin.listener=127.0.0.1:0",
                "object.store=file:objects",
                "metadata.log=sqlite:metadata.db",
                "drain.grace.ms=500",
            ]
            options = [word for each in named for word in ("--set", each)]
            data = ("--data", f"data-{node_id}")
            running[node_id] = stack.enter_context(serving("serve", *data, *options, cwd=folder))
        yield running


def listed(folder: Path) -> list[dict[str, Any]]:
    done = tidegate("gateway", "list", "--json", *LOG, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def states(folder: Path) -> list[str]:
    return [each["state"] for each in listed(folder)]


def test_a_gateway_is_drained_and_taken_back(tmp_path: Path) -> None:
    with gateways(tmp_path, 1, 2) as running:
        done = tidegate("gateway", "drain", "2", *LOG, cwd=tmp_path)
        said = "gateway 2 is draining\ngateway 2 is drained and may be stopped\n"
        assert (done.stdout, done.stderr, done.returncode) == (said, "", 0)
        assert states(tmp_path) == ["serving", "drained"]
        assert running[2].get("/readyz") == (503, "drained\n")
        assert running[1].get("/readyz") == (200, "ready\n")

        done = tidegate("gateway", "undrain", "2", *LOG, cwd=tmp_path)
        assert (done.stdout, done.returncode) == ("gateway 2 takes new work again\n", 0)
        assert states(tmp_path) == ["serving", "serving"]

        done = tidegate("gateway", "drain", "2", "--stop", *LOG, cwd=tmp_path)
        said = "gateway 2 is draining\ngateway 2 has stopped\n"
        assert (done.stdout, done.stderr, done.returncode) == (said, "", 0)
        assert running[2].popen.wait(PATIENCE_SECONDS) == 0

        done = tidegate("gateway", "list", *LOG, cwd=tmp_path)
        heads, row = done.stdout.splitlines()
        assert heads.split() == ["ID", "ZONE", "ADDRESS", "VERSION", "STATE", "GROUPS"]
        address = f"PLAINTEXT://{running[1].servers}"
        assert row.split()[:3] == ["1", "zone-1", address]
        assert row.split()[4:] == ["serving", "0"]


def test_the_first_signal_does_not_cut_short_what_an_operator_began(tmp_path: Path) -> None:
    """systemd or a supervisor may send a signal to a gateway that is about to end."""
    with gateways(tmp_path, 1, 2) as running:
        host, port = running[2].servers.split(":")
        # With a client the drain lasts drain.grace.ms.
        with socket.create_connection((host, int(port))):
            done = tidegate("gateway", "drain", "2", "--stop", "--timeout", "0", *LOG, cwd=tmp_path)
            assert (done.stdout, done.returncode) == ("gateway 2 is draining\n", 0)
            for line in running[2].popen.stderr or ():
                if "stopping, as an operator asked" in line:
                    break
            code, errors = running[2].stop()
    assert "stopping at once" not in errors
    assert code == 0


def test_a_lone_gateway_goes_on_serving(tmp_path: Path) -> None:
    with gateways(tmp_path, 1) as running:
        done = tidegate("gateway", "drain", "1", *LOG, cwd=tmp_path)
        assert done.returncode == 1
        assert "No other gateway takes new work, so gateway 1 serves" in done.stdout
        # The gateway reads the command's entry from the log a moment later.
        until = time.monotonic() + PATIENCE_SECONDS
        while running[1].get("/readyz") == (200, "ready\n"):
            assert time.monotonic() < until
        status, said = running[1].get("/readyz")
        assert (status, said[:22]) == (200, "ready: it is to drain,")


@pytest.mark.parametrize("command", ["drain", "undrain"])
def test_an_unknown_node_id_is_answered_with_the_known_ones(command: str, tmp_path: Path) -> None:
    with gateways(tmp_path, 1, 4):
        done = tidegate("gateway", command, "7", *LOG, cwd=tmp_path)
    said = "tidegate: no gateway has the id 7: there are 1, 4; see `tidegate gateway list`\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = tidegate("gateway", "list", *LOG, cwd=tmp_path)
    assert done.returncode == 2
    said = "tidegate: the metadata log cannot be used: there is no file metadata.db; name the"
    assert done.stderr.startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_the_version_of_a_new_cluster_is_the_highest(tmp_path: Path) -> None:
    with gateways(tmp_path, 1):
        done = tidegate("gateway", "version", *LOG, cwd=tmp_path)
    said = f"tidegate.metadata.version is {NEWEST}, the highest that all gateways can read.\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_a_version_is_not_raised_by_wrong_options(tmp_path: Path) -> None:
    for words, problem in (
        (("--raise", "9", "--json"), "--json cannot ask for a confirmation: give --yes, too"),
        (("--log", "sqlite:none.db"), "there is no file none.db"),
    ):
        done = tidegate("gateway", "version", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert problem in done.stderr
