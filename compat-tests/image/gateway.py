"""One gateway in a container: its rights, and whether a stop loses records."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from crash.ledger import judge
from crash.load import Production, Worker, create_topic, read_everything
from harness.process import free_ports

from image.building import TIDEGATE, pinned
from image.machine import Failed, Machine, Say

NAME: Final = "tidegate-check"
USER: Final = "10001"
PATIENCE_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.1
LOADED_RECORDS: Final = 2000
STOPS: Final = 2
# podman sends SIGKILL after so long, which gives exit code 137.
GRACE_SECONDS: Final = 45
# The variables that Kubernetes sets if a Service is called tidegate.
LINKS: Final = {
    "TIDEGATE_SERVICE_HOST": "10.0.0.1",
    "TIDEGATE_SERVICE_PORT": "9092",
    "TIDEGATE_SERVICE_PORT_KAFKA": "9092",
    "TIDEGATE_PORT": "tcp://10.0.0.1:9092",
    "TIDEGATE_PORT_9092_TCP": "tcp://10.0.0.1:9092",
    "TIDEGATE_PORT_9092_TCP_PROTO": "tcp",
    "TIDEGATE_PORT_9092_TCP_PORT": "9092",
    "TIDEGATE_PORT_9092_TCP_ADDR": "10.0.0.1",
}
CLOSED: Final = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--tmpfs=/tmp",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
)


class Container:
    """One gateway.  bootstrap: the address for clients on this machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        port, admin_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        self._admin = f"http://127.0.0.1:{admin_port}"
        settings = LINKS | {
            "TIDEGATE_LISTENERS": "PLAINTEXT://0.0.0.0:9092",
            "TIDEGATE_ADVERTISED_LISTENERS": f"PLAINTEXT://{self.bootstrap}",
            "TIDEGATE_ALLOW_PLAINTEXT_LISTENERS": "true",
            "TIDEGATE_ADMIN_LISTENER": "0.0.0.0:9644",
            "TIDEGATE_DISK_CACHE_DIR": "/var/cache/tidegate/segments",
        }
        self.words = [
            *CLOSED,
            f"--publish={self.bootstrap}:9092",
            f"--publish=127.0.0.1:{admin_port}:9644",
            "--volume=tidegate-data:/var/lib/tidegate",
            "--volume=tidegate-cache:/var/cache/tidegate",
            *(f"--env={name}={text}" for name, text in settings.items()),
        ]

    def run(self) -> None:
        """Start it for the first time."""
        self._machine.podman("run", "--detach", f"--name={NAME}", *self.words, TIDEGATE)

    def start(self) -> None:
        """Start it again."""
        self._machine.podman("start", NAME)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self._machine.podman("stop", f"--time={GRACE_SECONDS}", NAME)
        return int(self._machine.podman("inspect", "--format", "{{.State.ExitCode}}", NAME))

    def remove(self) -> None:
        """Remove the container; its volumes stay."""
        self._machine.podman("rm", "--force", "--time=1", NAME)

    def exec(self, *words: str, code: int | None = 0) -> str:
        """Run a program in it."""
        return self._machine.podman("exec", NAME, *words, code=code)

    def wait_until_ready(self) -> None:
        """Wait until clients may connect."""
        wait_until(self._is_ready, lambda: self._machine.podman("logs", NAME, code=None))

    def _is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"{self._admin}/readyz", timeout=5).close()
        except OSError:
            return False
        return True


def wait_until(done: Callable[[], bool], why: Callable[[], str]) -> None:
    """Wait for something that must happen.

    Raises:
      Failed: it does not happen; the text has the answer of why().
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise Failed(f"nothing happened for {PATIENCE_SECONDS:.0f} s:\n{why()[-3000:]}")
        time.sleep(LOOK_SECONDS)


def must(promise: str, is_kept: bool, seen: object = "") -> None:
    """Check a promise.

    Raises:
      Failed: it is not kept.
    """
    if not is_kept:
        raise Failed(f"not so: {promise} {seen}")


def check_gateway(machine: Machine, say: Say) -> None:
    """Start one gateway, check it, and stop it in several ways."""
    container = Container(machine)
    container.run()
    container.wait_until_ready()
    check_rights(container)
    check_bill(container, say)
    must("the health check says ready", container.exec("/opt/tidegate/bin/ready") == "")
    must(
        "it says why not",
        container.exec("/opt/tidegate/bin/ready", "http://[::1]:1/", code=1) == "",
    )
    say("runs as user 10001 on a read-only root, with variables of a Service called tidegate")
    check_stops(container, say)
    container.remove()
    check_early_stop(machine, container, say)


def check_rights(container: Container) -> None:
    """Check that it is not root, has no capability, and can write to its own folders only."""
    must("the user is not root", container.exec("id", "-u").strip() == USER)
    status = dict(
        line.split(":\t", 1) for line in container.exec("cat", "/proc/1/status").splitlines()
    )
    must("the process is not root", set(status["Uid"].split()) == {USER}, status["Uid"])
    must("it has no capability", int(status["CapBnd"], 16) == 0, status["CapBnd"])
    must("tidegate is the first process", "tidegate" in container.exec("cat", "/proc/1/cmdline"))
    for folder in ("/", "/opt/tidegate", "/etc", "/run", "/var/tmp", "/home"):
        told = container.exec("sh", "-c", f"touch {folder}/x 2>&1 || true")
        must(f"{folder} cannot be written", "cannot touch" in told, told)
    for folder in ("/tmp", "/var/lib/tidegate", "/var/cache/tidegate"):
        container.exec("sh", "-c", f"touch {folder}/x && rm {folder}/x")


def check_bill(container: Container, say: Say) -> None:
    """Check that the bill of materials names the packages of the image, in the pinned versions."""
    bill: Any = json.loads(container.exec("cat", "/opt/tidegate/sbom.cdx.json"))
    kinds = ("pypi", "deb")
    by_kind: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
    for each in bill["components"]:
        by_kind[each["purl"].split(":")[1].split("/")[0]][each["name"]] = each["version"]
    pins = pinned()
    found = {name.lower().replace("_", "-"): version for name, version in by_kind["pypi"].items()}
    wrong = {name: version for name, version in found.items() if pins.get(name) != version}
    must("all versions are those of constraints.txt", not wrong, wrong)
    must("psycopg is there", "psycopg-binary" in found)
    must("Debian's packages are there", {"libc6", "ca-certificates"} <= by_kind["deb"].keys())
    say(f"bill of materials: {len(found)} Python packages, {len(by_kind['deb'])} of Debian")


def check_stops(container: Container, say: Say) -> None:
    """Send SIGTERM under load, and start again: exit code 0, and no acknowledged record is lost."""
    create_topic(container.bootstrap)
    production = Production(container.bootstrap)
    with working(Worker(production)):
        for _ in range(STOPS):
            wait_for_records(production)
            before = time.monotonic()
            code = container.stop()
            must("SIGTERM under load gives exit code 0", code == 0, code)
            say(f"SIGTERM under load: exit code 0 after {time.monotonic() - before:.1f} s")
            container.start()
            container.wait_until_ready()
        wait_for_records(production)
    check_records(production, container.bootstrap, say)
    must("SIGTERM gives exit code 0", container.stop() == 0)


def check_early_stop(machine: Machine, container: Container, say: Say) -> None:
    """Send SIGTERM to a process that still loads its modules."""
    for wait_seconds in (0.1, 0.4):
        container.run()
        time.sleep(wait_seconds)
        before = time.monotonic()
        code = container.stop()
        seconds = time.monotonic() - before
        # 143: SIGTERM ended the process before it was a gateway.  137 would be SIGKILL, after
        # podman's time-out.
        must("a stop while it loads is heard", code in (0, 143), code)
        say(f"SIGTERM {wait_seconds} s after the start: exit code {code} after {seconds:.1f} s")
        container.remove()
    machine.podman("volume", "rm", "tidegate-data", "tidegate-cache")


@contextmanager
def working(worker: Worker) -> Generator[None]:
    """Run a load while the block runs."""
    worker.start()
    yield
    worker.finish()


def wait_for_records(production: Production) -> None:
    """Wait until more records are acknowledged."""
    wanted = production.ledger.count + LOADED_RECORDS
    wait_until(lambda: production.ledger.count >= wanted, lambda: "no record is acknowledged")


def check_records(production: Production, bootstrap: str, say: Say) -> None:
    """Check that the topic has every acknowledged record once, in order."""
    ledger = production.ledger
    verdict = judge(ledger, read_everything(bootstrap))
    must("no record failed", not ledger.failed, ledger.failed[:3])
    must("every promise was kept", verdict.is_clean, verdict)
    say(f"{ledger.count} records were acknowledged: none lost, none twice, all in order")
