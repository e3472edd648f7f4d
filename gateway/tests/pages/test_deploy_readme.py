"""deploy/README.md is true: its files start gateways, its commands print what it says.

The tests use one machine.  They replace hosts, ports, folders, database and bucket of the page by
real ones.
"""

from __future__ import annotations

import re
import secrets
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate
from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS

PAGE = Path(__file__).parents[3] / "deploy" / "README.md"
UNIT = PAGE.with_name("systemd") / "tidegate.service"
METRICS = Path(__file__).parents[3] / "docs" / "operations" / "metrics.md"
README = PAGE.read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
ZONES = ("az-a", "az-b", "az-c")
PASSWORD = "change-me"


def block(kind: str) -> str:
    """Return the page's only block of this kind."""
    (found,) = (text for each, text in BLOCKS if each == kind)
    return str(found)


def commands() -> list[tuple[str, str]]:
    """Return all commands of the page, with the output that it shows."""
    shown = "".join(text for kind, text in BLOCKS if kind == "console")
    return re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", shown, re.MULTILINE)


@dataclass
class Place:
    """The machine of the tests.  renamed: names on the page -> names on the machine."""

    folder: Path
    renamed: dict[str, str] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)

    def real(self, text: str) -> str:
        for ours, theirs in self.renamed.items():
            text = text.replace(ours, theirs)
        return text

    def start(self, node_id: int) -> Any:
        """Start a gateway with the page's settings and the service's command."""
        letter = "abc"[node_id - 1]
        host = f"gw-{letter}.example"
        text = block("properties").replace("gw-a.example", host)
        text = text.replace("az-a", ZONES[node_id - 1]).replace("node.id=1", f"node.id={node_id}")
        text = re.sub(r"0\.0\.0\.0:\d+|gw-.\.example:\d+", "127.0.0.1:0", text)
        file = self.folder / f"server-{letter}.properties"
        file.write_text(self.real(text).replace("/var/cache", f"{self.folder}/cache-{letter}"))
        words = re.search(r"^ExecStart=\S+/bin/tidegate (.*)$", UNIT.read_text(), re.MULTILINE)
        assert words is not None
        command = words[1].replace("/etc/tidegate/server.properties", str(file))
        command = command.replace("/var/lib/tidegate", str(self.folder / f"data-{letter}"))
        return serving(*command.split(), cwd=self.folder, **self.variables())

    def variables(self) -> dict[str, str]:
        pairs = (line.partition("=") for line in self.real(block("sh")).splitlines())
        return {name: text for name, _, text in pairs}


@contextmanager
def database(server: Any, place: Place) -> Iterator[None]:
    """Make a database as the page does, and the password file that it describes."""
    server.sql(*(each for each in block("sql").split(";\n") if each))
    row = f"db.example:5432:*:tidegate:{PASSWORD}"
    assert row in README
    file = place.folder / "pgpass"
    file.touch(mode=0o600)
    file.write_text(row.replace("db.example:5432", f"127.0.0.1:{server.port}"))
    place.renamed |= {
        "db.example:5432": f"127.0.0.1:{server.port}",
        "?sslmode=verify-full&sslrootcert=/etc/tidegate/db-ca.pem": "",
        "/etc/tidegate/pgpass": str(file),
    }
    try:
        yield
    finally:
        server.sql("DROP DATABASE tidegate WITH (FORCE)", "DROP ROLE tidegate")


@pytest.fixture
def place(postgres_server: Any, seaweed_s3_url: str, tmp_path: Path) -> Iterator[Place]:
    """Three gateways that serve."""
    found = Place(tmp_path)
    store = seaweed_s3_url.replace("?", f"/{secrets.token_hex(4)}?")
    found.renamed["s3://tidegate-records/prod?region=eu-central-1"] = store
    with database(postgres_server, found), ExitStack() as stack:
        for node_id, letter in enumerate("abc", 1):
            process = stack.enter_context(found.start(node_id))
            found.processes.append(process)
            host = f"gw-{letter}.example"
            found.renamed[f"{host}:9092"] = process.servers
            found.renamed[f"{host}:9644"] = str(process.said["admin_url"]).removeprefix("http://")
            found.renamed[f"{host}:9645"] = str(process.said["peer"])
        found.renamed["/etc/tidegate/server.properties"] = "trial.properties"
        found.renamed["/var/lib/tidegate"] = "trial"
        trial = found.real((tmp_path / "server-a.properties").read_text())
        # `tidegate doctor` runs for a fourth machine, since the page's machines run their gateways
        # already.
        trial = trial.replace("node.id=1", "node.id=4").replace("cache-a", "cache-trial")
        (tmp_path / "trial.properties").write_text(trial)
        yield found
        for process in found.processes:
            assert process.stop(signal.SIGTERM)[0] == 0


def test_all_of_it_in_turn(place: Place) -> None:
    ran: list[str] = []
    for command, shown in commands():
        printed = run(place, place.real(command))
        if printed is None:
            continue
        ran.append(command.split()[0])
        if shown:
            assert same(printed) == same(place.real(shown)), command
    assert {"tidegate", "curl"} <= set(ran)
    metrics_exist(place)


def same(text: str) -> list[list[str]]:
    """Return the words of each line, since the width of columns depends on their content."""
    return [line.split() for line in text.splitlines()]


def run(place: Place, command: str) -> str | None:
    """Run a command, return its output; None if its tool is not installed."""
    words = command.split()
    if words[0] == "tidegate":
        arguments = command.replace("'", "").split()[1:]
        done = tidegate(*arguments, cwd=place.folder, seconds=PATIENCE_SECONDS, **place.variables())
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    tools = [each for each in ("curl", "kcat") if each in words]
    if not all(map(shutil.which, tools)):
        return None
    plain = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    return plain.stdout


def write_a_record(place: Place) -> None:
    """Write a large record, since some metrics appear only after a gateway has stored an object."""
    servers = place.renamed["gw-a.example:9092"]
    producer = Producer({"bootstrap.servers": servers, "client.id": f"zone={ZONES[0]}"})
    producer.produce("orders", bytes(100_000))
    assert producer.flush(PATIENCE_SECONDS) == 0


def metrics_exist(place: Place) -> None:
    """Check that the page of metrics has all metrics of these gateways, and no others."""
    write_a_record(place)
    url = f"{place.processes[0].said['admin_url']}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        served = re.findall(r"^# TYPE (\S+) ", answer.read().decode(), re.MULTILINE)
    page, _, rest = METRICS.read_text().partition("\n## Names of Kafka that are not here\n")
    page += rest.partition("\n## ")[2]
    named = re.findall(r"`((?:tidegate|kafka)_[a-z_]+)`", page + README)
    assert len(named) > 70
    assert [each for each in named if each not in served] == []
    ours = [each for each in served if each.startswith(("tidegate_", "kafka_"))]
    assert [each for each in ours if each not in named] == []


def test_settings_exist() -> None:
    plain = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`", plain)
    clients = {"bootstrap.servers", "client.id", "client.rack", "instance.key", "cleanup.policy"}
    unknown = [each for each in named if each not in BROKER_CONFIGS and each not in clients]
    assert unknown == []
    defaults = re.findall(r"`([a-z.]+)` \((\d+) (s|tokens)", plain)
    assert {name for name, _, _ in defaults} >= {"lease.ms", "drain.timeout.ms"}
    for name, figure, unit in defaults:
        wanted = int(figure) * (1000 if unit == "s" else 1)
        assert float(str(BROKER_CONFIGS[name].default)) == wanted, name


def test_places_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        assert (PAGE.parent / target).exists(), target
    assert sys.version_info >= (3, 11)
