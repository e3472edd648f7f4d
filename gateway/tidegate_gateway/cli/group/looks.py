"""Runs `tidegate group list`, `describe` and `lag`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.failed import Failed
from tidegate_coordination.client.groups.group_calls import (
    DEAD,
    Group,
    LagRow,
    Member,
    group_of,
    lag_of,
    listed,
)
from tidegate_coordination.client.source_bounds import Place
from tidegate_protocol.messages.list_groups import ListedGroup

from ..kafka.cluster import run_client
from ..kafka.options import KafkaPlace
from ..output.table import aligned, counted, printable

_NO_MEMBERS = "this cluster tells its members only to clients of the new protocol (KIP-848)"


def run_list(place: KafkaPlace, *, as_json: bool) -> int:
    """Print the groups; return the exit code."""
    return run_client(place, lambda cluster: show_all(cluster, as_json=as_json))


async def show_all(cluster: ClassicCluster, *, as_json: bool) -> int:
    """Print the groups; return the exit code; raises as run_client() expects."""
    found = await listed(cluster)
    print(json.dumps([_listed_facts(each) for each in found]) if as_json else _list_text(found))
    return 0


def _listed_facts(group: ListedGroup) -> dict[str, Any]:
    return {
        "name": group.group_id,
        "state": group.group_state or None,
        "type": group.group_type or None,
        "protocol_type": group.protocol_type,
    }


def _list_text(groups: Sequence[ListedGroup]) -> str:
    if not groups:
        return "There is no group."
    cells = [("STATE", "TYPE", "GROUP")]
    cells += [
        (
            printable(each.group_state) or "-",
            printable(each.group_type) or "-",
            printable(each.group_id),
        )
        for each in groups
    ]
    return "\n".join(aligned(cells))


async def known_group(cluster: ClassicCluster, name: str) -> tuple[Group, list[LagRow]]:
    """Return a group and its lag.

    Raises:
      Failed: there is no such group.
      ClassicError: the cluster does not say.
    """
    group = await group_of(cluster, name)
    rows = await lag_of(cluster, group)
    if group.state == DEAD and not rows:
        raise Failed(f"there is no group {name}; see `tidegate group list`")
    return group, rows


def run_describe(place: KafkaPlace, name: str, *, as_json: bool) -> int:
    """Print a group; return the exit code."""
    return run_client(place, lambda cluster: describe(cluster, name, as_json=as_json))


async def describe(cluster: ClassicCluster, name: str, *, as_json: bool) -> int:
    """Print a group; return the exit code; raises as run_client() expects."""
    group, _ = await known_group(cluster, name)
    print(json.dumps(_group_facts(group)) if as_json else _describe_text(group))
    return 0


def _group_facts(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "state": group.state,
        "protocol": group.protocol or None,
        "coordinator": group.coordinator,
        "members": [_member_facts(each) for each in group.members] if group.is_told else None,
    }


def _member_facts(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id or None,
        "client_id": member.client_id,
        "host": member.host,
        "assigned": [
            {"topic": topic, "partitions": [index for _, index in places]}
            for topic, places in groupby(member.assigned, key=lambda place: place[0])
        ],
    }


def _describe_text(group: Group) -> str:
    members = len(group.members) if group.is_told else _NO_MEMBERS
    lines = [
        f"group        {printable(group.name)}",
        f"state        {printable(group.state)}",
        f"protocol     {printable(group.protocol) or '-'}",
        f"coordinator  {group.coordinator}",
        f"members      {members}",
    ]
    for each in group.members:
        instance = f", group.instance.id {each.instance_id}" if each.instance_id else ""
        lines += [
            "",
            printable(each.member_id),
            f"  client {printable(each.client_id)} at {printable(each.host)}{printable(instance)}",
            f"  reads {printable(_assigned_text(each.assigned)) or 'nothing'}",
        ]
    return "\n".join(lines)


def _assigned_text(assigned: Iterable[Place]) -> str:
    return ", ".join(
        f"{topic}:{','.join(str(index) for _, index in places)}"
        for topic, places in groupby(assigned, key=lambda place: place[0])
    )


def run_lag(place: KafkaPlace, name: str, *, as_json: bool) -> int:
    """Print the lag of a group; return the exit code."""
    return run_client(place, lambda cluster: lag(cluster, name, as_json=as_json))


async def lag(cluster: ClassicCluster, name: str, *, as_json: bool) -> int:
    """Print the lag of a group; return the exit code; raises as run_client() expects."""
    group, rows = await known_group(cluster, name)
    print((_lag_json if as_json else _lag_text)(group, rows))
    return 0


def _total(rows: Iterable[LagRow]) -> int:
    return sum(each.lag or 0 for each in rows)


def _beyond(rows: Iterable[LagRow]) -> int:
    return sum(each.beyond or 0 for each in rows)


def _lag_json(group: Group, rows: Sequence[LagRow]) -> str:
    partitions = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "committed": each.committed,
            "end": each.end,
            "lag": each.lag,
            "beyond_end": each.beyond,
            "member_id": each.member.member_id if each.member else None,
            "client_id": each.member.client_id if each.member else None,
            "host": each.member.host if each.member else None,
        }
        for each in rows
    ]
    return json.dumps(
        {
            "name": group.name,
            "state": group.state,
            "members": len(group.members) if group.is_told else None,
            "total": _total(rows),
            "total_beyond_end": _beyond(rows),
            "partitions": partitions,
        }
    )


def _lag_text(group: Group, rows: Sequence[LagRow]) -> str:
    members = f", with {counted(len(group.members), 'member')}"
    if not group.is_told:
        members = f"; {_NO_MEMBERS}"
    head = f"group {printable(group.name)} is {printable(group.state)}{members}"
    if not rows:
        return f"{head}. It has no committed offset."
    cells = [("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEYOND", "CLIENT")]
    cells += [
        (
            printable(each.topic),
            str(each.partition),
            _number(each.committed),
            _number(each.end),
            _number(each.lag),
            _number(each.beyond),
            f"{printable(each.member.client_id)} {printable(each.member.host)}"
            if each.member
            else "-",
        )
        for each in rows
    ]
    lines = [head, "", *aligned(cells), "", f"total lag {_total(rows)}"]
    if beyond := _beyond(rows):
        lines.append(
            f"{beyond} offsets are committed beyond the end: the topic was made anew, or records"
            " were lost. `tidegate group seek` sets them."
        )
    return "\n".join(lines)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
