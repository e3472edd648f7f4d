"""`tidegate zones`: shows which clients cross zones at some gateways, and how to avoid it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidegate_runtime.settings_texts import SettingsError

from ..zones.zone_report import look_alikes
from .admin_reader import Access, AdminReader, NoAnswer, places
from .output.table import printable, sized
from .zone_sums import summed

NOT_TOLD: Final = 2
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def run_zones(admins: Sequence[str], access: Access, *, as_json: bool) -> int:
    """Print the sum of the gateways' figures; return the exit code.

    A gateway that does not answer is an error: without its figures the sum would be too low.
    """
    try:
        reader = AdminReader(access)
        report = summed([reader.read_json(each, "/v1/zones") for each in places(admins)])
    except (SettingsError, NoAnswer) as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return NOT_TOLD
    print(json.dumps(report) if as_json else text_of(report))
    return 0


def text_of(report: Mapping[str, Any]) -> str:
    """Return the report for a person."""
    lines = [
        _whose(report),
        f"all zones      {', '.join(report['zones'])}",
        f"produced       {_kinds(report['produced'])}",
        f"fetched        {_kinds(report['fetched'])}",
    ]
    strangers = report["answers_without_gateway_in_zone"]
    if strangers:
        lines.append(f"no gateway     {strangers} answers to clients whose zone has none")
    advised = [each for each in report["clients"] if each["advice"]]
    for each in advised:
        zone = f"zone {each['zone']} by {each['told_by']}" if each["zone"] else "zone not known"
        lines += [
            "",
            f"{printable(each['client_id']) or '(no client.id)'}: {printable(zone)}",
            f"  produced {_kinds(each['produced'])}; fetched {_kinds(each['fetched'])}",
            f"  {printable(each['advice'])}",
        ]
    for pair in look_alikes(report["zones"]):
        one, other = map(printable, pair)
        lines += [
            "",
            f"Zones {one} and {other} look like one: if they are, give their gateways the same"
            f" broker.rack, or set zone.id.map={one}={other} at all gateways.",
        ]
    if not advised:
        is_one = len(report["zones"]) <= 1
        only = "All gateways are of one zone: nothing crosses zones here."
        lines += ["", only if is_one else "No client crosses zones here."]
    return "\n".join(lines)


def _whose(report: Mapping[str, Any]) -> str:
    count = report.get("gateways", 1)
    if count == 1:
        return f"this gateway   zone {report['zone']}"
    return f"{f'{count} gateways':<15}of zones {report['zone']}"


def _kinds(counts: Mapping[str, int]) -> str:
    words = {"same": "in the zone", "cross": "across zones", "unknown": "of unknown zones"}
    return ", ".join(f"{_size(counts[kind])} {text}" for kind, text in words.items())


def _size(count: float) -> str:
    return sized(count, _UNITS, _STEP)
