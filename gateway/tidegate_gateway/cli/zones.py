"""`tidegate zones`: shows which clients cross zones at some gateways, and how to avoid it."""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from tidegate_runtime.addresses import host_port, url_host
from tidegate_runtime.settings_texts import SettingsError

from ..zones.zone_report import look_alikes
from .table import printable
from .zone_sums import summed

ANSWER_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 16 << 20
NOT_TOLD: Final = 2
UNAUTHORIZED: Final = 401
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


class NoAnswer(Exception):
    """A gateway's admin listener gave no report.  The text says why."""


@dataclass(frozen=True, slots=True)
class Access:
    """What opens the pages.  token_file: holds admin.token; None for none.  ca_file: certificates
    to trust, in PEM; None for pages without TLS.
    """

    token_file: Path | None = None
    ca_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of a request; raises SettingsError."""
        if self.token_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}
        except (OSError, UnicodeError) as error:
            raise SettingsError(f"--token-file: {error}") from None

    def handlers(self) -> list[urllib.request.BaseHandler]:
        """Return how to connect: without the web proxy that the environment may name.

        Raises:
          SettingsError: the certificates cannot be read.
        """
        found: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.ca_file is not None:
            try:
                context = ssl.create_default_context(cafile=self.ca_file)
            except OSError as error:
                raise SettingsError(f"--ca-file: {error}") from None
            found.append(urllib.request.HTTPSHandler(context=context))
        return found


def run_zones(admins: Sequence[str], access: Access, *, as_json: bool) -> int:
    """Print the sum of the gateways' figures; return the exit code.

    A gateway that does not answer is an error: without its figures the sum would be too low.
    """
    try:
        places = dict.fromkeys(host_port("--admin", each) for each in admins)
        opener = urllib.request.build_opener(*access.handlers())
        opener.addheaders = list(access.headers().items())
        scheme = "http" if access.ca_file is None else "https"
        report = summed([_asked(opener, scheme, *each) for each in places])
    except (SettingsError, NoAnswer) as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return NOT_TOLD
    print(json.dumps(report) if as_json else text_of(report))
    return 0


def _asked(
    opener: urllib.request.OpenerDirector, scheme: str, host: str, port: int
) -> Mapping[str, Any]:
    where = f"{url_host(host)}:{port}"
    try:
        with opener.open(f"{scheme}://{where}/v1/zones", timeout=ANSWER_SECONDS) as answer:
            report: Mapping[str, Any] = json.loads(answer.read(MAX_ANSWER_BYTES))
            return report
    except urllib.error.HTTPError as error:
        with error:
            if error.code == UNAUTHORIZED:
                raise NoAnswer(
                    f"{where} asks for its admin.token: give --token-file FILE"
                ) from None
            raise NoAnswer(
                f"{where} answers {error.code}: the gateway is starting, or it is no gateway"
            ) from None
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswer(
            f"no gateway's admin listener answers at {where} ({error}); give --admin the host:port"
            " of its admin.listener"
        ) from error


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
    for unit in _UNITS:
        if count < _STEP or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _STEP
    raise AssertionError
