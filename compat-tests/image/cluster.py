"""deploy/compose: three gateways with PostgreSQL and SeaweedFS; one is killed, one is upgraded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from crash.load import Production, Worker, create_topic
from harness.places import ROOT

from image.building import NEWER, POSTGRES, SEAWEEDFS, TIDEGATE, build_newer, build_stand_ins
from image.gateway import check_records, must, wait_for_records, wait_until, working
from image.machine import Machine, Say

PROJECT: Final = "tidegate-check"
FILES: Final = ("compose.yaml", "make-secrets")
GATEWAYS: Final = {"gateway-a": 19092, "gateway-b": 29092, "gateway-c": 39092}
BOOTSTRAP: Final = ",".join(f"127.0.0.1:{port}" for port in GATEWAYS.values())
SERVICES: Final = (*GATEWAYS, "pipeline", "postgres", "seaweedfs")


class Cluster:
    """The containers of compose.yaml."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine = machine
        self._folder = folder
        self.image = TIDEGATE

    def compose(self, *words: str) -> str:
        """Run podman-compose, as README.md says, with images of this machine."""
        environ = {
            "TIDEGATE_IMAGE": self.image,
            "POSTGRES_IMAGE": POSTGRES,
            "SEAWEEDFS_IMAGE": SEAWEEDFS,
        }
        words = ("podman-compose", "-p", PROJECT, *words)
        return self._machine.run(*words, cwd=self._folder, environ=environ)

    def container(self, service: str) -> str:
        """Return the name of a service's container."""
        return f"{PROJECT}_{service}_1"

    def inspect(self, service: str, what: str) -> str:
        """Return a fact about a container."""
        words = ("inspect", "--format", f"{{{{{what}}}}}", self.container(service))
        return self._machine.podman(*words).strip()

    def kill(self, service: str) -> None:
        """Kill a container's process."""
        self._machine.podman("kill", "--signal", "KILL", self.container(service))

    def remove(self, service: str) -> None:
        """Remove a stopped container; its volumes stay."""
        self._machine.podman("rm", self.container(service))

    def start(self, service: str) -> None:
        """Start a container again."""
        self._machine.podman("start", self.container(service))

    def is_healthy(self, service: str) -> bool:
        """Run the health check of a container, as its engine does."""
        return self._machine.succeeds("podman", "healthcheck", "run", self.container(service))

    def wait_until_healthy(self, service: str) -> None:
        """Wait for the health check."""

        def logs() -> str:
            return self._machine.podman("logs", "--tail", "30", self.container(service), code=None)

        wait_until(lambda: self.is_healthy(service), logs)


def check_cluster(machine: Machine, say: Say) -> None:
    """Start the cluster, write, kill and upgrade gateways, and read everything."""
    build_stand_ins(machine)
    build_newer(machine)
    folder = machine.folder / PROJECT
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / "deploy" / "compose" / name, folder / name)
    machine.run("./make-secrets", cwd=folder)
    cluster = Cluster(machine, folder)
    cluster.compose("up", "--detach")
    for service in (*GATEWAYS, "postgres", "seaweedfs"):
        cluster.wait_until_healthy(service)
    say("three gateways, PostgreSQL and SeaweedFS are healthy")
    check_secrets(machine, cluster, folder)
    create_topic(BOOTSTRAP)
    production = Production(BOOTSTRAP)
    with working(Worker(production)):
        wait_for_records(production)
        lose(cluster, production, say)
        upgrade(cluster, production, say)
    check_records(production, BOOTSTRAP, say)
    must("the pipeline runs", cluster.inspect("pipeline", ".State.Running") == "true")


def check_secrets(machine: Machine, cluster: Cluster, folder: Path) -> None:
    """Check that an engine shows no secret of a container."""
    secrets = (folder / "secrets" / "tidegate").read_text(encoding="utf-8").splitlines()
    values = [line.partition("=")[2].strip("'") for line in secrets]
    shown = machine.podman("inspect", *(cluster.container(each) for each in SERVICES))
    must("inspect shows no secret", not any(each in shown for each in values))


def lose(cluster: Cluster, production: Production, say: Say) -> None:
    """Kill a gateway, and start it again.  Clients must continue with the others meanwhile."""
    cluster.kill("gateway-a")
    wait_for_records(production)
    say(f"gateway-a was killed: {production.ledger.count} records acknowledged without it")
    cluster.start("gateway-a")
    cluster.wait_until_healthy("gateway-a")
    wait_for_records(production)


def upgrade(cluster: Cluster, production: Production, say: Say) -> None:
    """Replace a gateway's container by one of another image; its volume stays."""
    before = cluster.inspect("gateway-b", ".Image"), cluster.inspect("gateway-b", ".Id")
    cluster.image = NEWER
    cluster.compose("stop", "--timeout", "45", "gateway-b")
    code = cluster.inspect("gateway-b", ".State.ExitCode")
    must("a gateway that is stopped ends with exit code 0", code == "0", code)
    cluster.remove("gateway-b")
    wait_for_records(production)
    cluster.compose("up", "--detach", "gateway-b")
    cluster.wait_until_healthy("gateway-b")
    after = cluster.inspect("gateway-b", ".Image"), cluster.inspect("gateway-b", ".Id")
    must("the container is another", before[1] != after[1])
    must("its image is another", before[0] != after[0], after[0])
    wait_for_records(production)
    say(f"gateway-b was upgraded: {production.ledger.count} records acknowledged until then")
