"""The output about several gateways, for people and for scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_runtime.shown import shown_path

from ...produce.write_pace import write_pace
from ...settings.broker_settings import BrokerSettings
from ..banner import TOPIC
from .moves import Phase
from .plan import GatewayPlan
from .words import help_text


@dataclass(frozen=True, slots=True)
class Member:
    """The present state of a gateway.

    said: the JSON that it printed when it last began to serve.
    """

    plan: GatewayPlan
    phase: Phase
    said: Mapping[str, Any]

    @property
    def servers(self) -> str:
        """The address for its clients' bootstrap.servers."""
        return str(self.said["bootstrap_servers"])


def banner(members: Sequence[Member], data: Path, *, environment: Path | None, called: str) -> str:
    """Return the text for a person.

    Args:
      called: see cli/called_as.py.
      environment: a file that shells must read before they use store and log; None if not needed.
    """
    first = members[0]
    servers = ",".join(each.servers for each in members)
    zones = "zone" if len(members) == 1 else "zones"
    option = f"--log '{first.plan.texts['metadata.log']}'"
    pace = write_pace(BrokerSettings(first.plan.texts))
    before = f". {shown_path(environment)}; " if environment else ""
    lines = [
        f"Tidegate {first.said['version']}, {len(members)} {zones}, data in {shown_path(data)}",
        "",
        *_addresses(members, servers),
        f"  object store       {first.said['object_store']}",
        f"  metadata log       {first.said['metadata_log']}",
        f"  gateways' logs     {shown_path(data / 'logs')}",
        "",
        *([pace, ""] if pace else []),
        "Write and read:",
        "",
        f"  echo hello | {called} topic produce {TOPIC} --bootstrap {servers}",
        f"  {called} topic consume {TOPIC} --bootstrap {servers}",
        "",
        "A client that says its zone writes and reads there, such as kcat:",
        "",
        f"  echo hello | kcat -P -b {servers} -X client.id=zone=az-1 -t {TOPIC}",
        f"  kcat -C -b {servers} -X client.rack=az-{len(members)} -t {TOPIC} -e",
        "",
        "client.id=NAME,zone=az-1 does so for any client, client.rack=az-1 for consumers.",
        "To see which clients cross zones, and the gateways:",
        "",
        f"  {called} zones --admin {str(first.said['admin_url']).removeprefix('http://')}",
        f"  {before}{called} gateway list {option}",
        "",
        "Type here:",
        "",
        help_text(),
        "",
        f"Ctrl+C stops all; the data stays in {shown_path(data)}.",
    ]
    return "\n".join(lines)


def _addresses(members: Sequence[Member], servers: str) -> list[str]:
    rows = [
        ("", "BOOTSTRAP SERVERS", "ADMIN"),
        *((each.plan.zone, each.servers, str(each.said["admin_url"])) for each in members),
        ("all", servers, ""),
    ]
    return [f"  {name:<17}  {address:<21}  {admin}".rstrip() for name, address, admin in rows]


def status_text(members: Sequence[Member]) -> str:
    """Return the state of each gateway, as a table."""
    rows = [
        ("ID", "ZONE", "STATE", "BOOTSTRAP SERVERS", "ADMIN", "PID"),
        *(
            (
                str(each.plan.node_id),
                each.plan.zone,
                each.phase.value,
                str(each.said.get("bootstrap_servers", "")),
                str(each.said.get("admin_url", "")),
                str(each.said.get("pid", "")) if each.phase is not Phase.DOWN else "",
            )
            for each in members
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def json_text(members: Sequence[Member], data: Path, *, environment: Path | None) -> str:
    """Return the same as one line of JSON."""
    first = members[0]
    return json.dumps(
        {
            "version": first.said["version"],
            "data": str(data),
            "bootstrap_servers": ",".join(each.servers for each in members),
            "object_store": first.said["object_store"],
            "metadata_log": first.said["metadata_log"],
            "cluster_id": first.said["cluster_id"],
            "environment": str(environment) if environment else None,
            "pid": os.getpid(),
            "gateways": [_json_row(each) for each in members],
        }
    )


def _json_row(member: Member) -> dict[str, Any]:
    said, plan = member.said, member.plan
    return {
        "node_id": plan.node_id,
        "zone": plan.zone,
        "state": member.phase.value,
        "bootstrap_servers": said["bootstrap_servers"],
        "admin_url": said["admin_url"],
        "peer": said["peer"],
        "data": str(plan.folder),
        "log_file": str(plan.log_file),
        "settings_file": str(plan.settings_file),
        "pid": said["pid"] if member.phase is not Phase.DOWN else None,
    }
