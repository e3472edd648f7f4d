"""The gateways of `dev --zones`, and the settings of each as a file that `serve` takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tidegate_runtime.addresses import url_host
from tidegate_runtime.settings_texts import BadSource

from ...peers.peer_listener import EVERYWHERE
from ...settings.settings_sources import gather

MAX_ZONES: Final = 9
MAX_PORT: Final = 65_535
# The time that a process may take to end after its drain.
END_SECONDS: Final = 30.0
_CACHE_BYTES: Final = 1 << 30
_OF_EACH: Final = frozenset(
    {
        "admin.listener",
        "advertised.listeners",
        "broker.rack",
        "disk.cache.dir",
        "instance.key",
        "listeners",
        "metadata.log",
        "node.id",
        "object.store",
        "peer.listener",
    }
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The command's options.  port, admin_port: of the first gateway; 0 for free ports."""

    zones: int
    host: str
    port: int
    admin_port: int
    data: Path


@dataclass(frozen=True, slots=True)
class Places:
    """The store and log that all gateways share, as URLs, and their peer.token."""

    object_store: str
    log: str
    token: str


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """One gateway.  texts: its settings by name."""

    node_id: int
    zone: str
    data: Path
    texts: Mapping[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return f"gateway {self.node_id} ({self.zone})"

    @property
    def stop_seconds(self) -> float:
        """The time limit of a stop: drain.timeout.ms, and the time to end the process."""
        return int(self.texts["drain.timeout.ms"]) / 1000 + END_SECONDS

    @property
    def folder(self) -> Path:
        """The folder of its own data."""
        return self.data / f"gateway-{self.node_id}"

    @property
    def settings_file(self) -> Path:
        """The file with its settings."""
        return self.folder / "server.properties"

    @property
    def log_file(self) -> Path:
        """The file with its log."""
        return self.data / "logs" / f"gateway-{self.node_id}.log"

    def settled(self, said: Mapping[str, Any]) -> GatewayPlan:
        """Return the plan with the ports that the gateway got, so that it uses them again.

        Args:
          said: the JSON that the gateway printed when it served.
        """
        found = {
            "listeners": f"PLAINTEXT://{said['bootstrap_servers']}",
            "admin.listener": str(said["admin_url"]).removeprefix("http://"),
            "peer.listener": str(said["peer"]),
        }
        return replace(self, texts={**self.texts, **found})


def make_plans(shape: Shape, places: Places, assignments: Iterable[str]) -> tuple[GatewayPlan, ...]:
    """Return the plans of all gateways.

    Raises:
      BadSource: an assignment or option is wrong, or a setting must differ between gateways.
    """
    kept = tuple(assignments)
    _check(shape, kept)
    return tuple(_plan(shape, places, kept, number) for number in range(1, shape.zones + 1))


def _check(shape: Shape, assignments: Iterable[str]) -> None:
    for each in assignments:
        name = each.partition("=")[0].strip()
        if name in _OF_EACH:
            raise BadSource(f"--set {name}: --zones gives each gateway its own; leave it out")
    if shape.host in EVERYWHERE:
        raise BadSource(f"--host {shape.host}: name an address that clients can connect to")
    for option, port in (("--port", shape.port), ("--admin-port", shape.admin_port)):
        if port + shape.zones - 1 > MAX_PORT:
            raise BadSource(
                f"{option} {port}: {shape.zones} gateways need as many ports from there"
            )


def _plan(shape: Shape, places: Places, assignments: tuple[str, ...], number: int) -> GatewayPlan:
    plan = GatewayPlan(number, f"az-{number}", shape.data, {})
    host = url_host(shape.host)
    texts = {
        "node.id": str(number),
        "broker.rack": plan.zone,
        "listeners": f"PLAINTEXT://{host}:{_nth(shape.port, number)}",
        "admin.listener": f"{host}:{_nth(shape.admin_port, number)}",
        "peer.listener": "127.0.0.1:0",
        "peer.token": places.token,
        "object.store": places.object_store,
        "metadata.log": places.log,
        "disk.cache.dir": f"{plan.folder}/cache",
        "disk.cache.max.bytes": str(_CACHE_BYTES),
        # Only a label.  Java clients read within their zone only if metadata names a replica there.
        "default.replication.factor": str(shape.zones),
        "group.initial.rebalance.delay.ms": "0",
        # For trials a short drain is better than a long wait.
        "drain.timeout.ms": "12000",
    }
    settings = gather(defaults=texts, environ={}, assignments=assignments)
    return replace(plan, texts=settings.with_secrets())


def _nth(first: int, number: int) -> int:
    return first + number - 1 if first else 0


def properties_text(texts: Mapping[str, str]) -> str:
    """Return settings in the format of a server.properties."""
    lines = [_line(name, text) for name, text in texts.items()]
    return "\n".join(lines) + "\n"


def _line(name: str, text: str) -> str:
    escaped = text.replace("\\", "\\\\")
    return f"{name}={escaped}"
