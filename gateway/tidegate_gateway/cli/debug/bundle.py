"""Writes the admin pages of gateways into one .tar.gz."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from tidegate_runtime.addresses import url_host
from tidegate_runtime.settings_texts import SettingsError

from ..admin_reader import Access, AdminReader, NoAnswer, Place, places

PAGES: Final = {
    "/readyz": "ready.txt",
    "/version": "version.json",
    "/metrics": "metrics.txt",
    "/metrics/cluster": "metrics-cluster.txt",
    "/v1/status": "status.json",
    "/v1/cost": "cost.json",
    "/v1/links": "links.json",
    "/v1/zones": "zones.json",
    "/v1/debug": "debug.json",
}
NOT_WRITTEN: Final = 2
# /readyz has this status while a gateway starts, drains or is cut off.
UNAVAILABLE: Final = 503


class Entry(NamedTuple):
    """One file of the bundle."""

    name: str
    content: bytes


def run_bundle(admins: Sequence[str], access: Access, out: Path) -> int:
    """Write the bundle; return the exit code: 1 if a page is missing, 2 if nothing was written."""
    try:
        reader = AdminReader(access)
        entries = [entry for each in places(admins) for entry in _entries(reader, each)]
        _write(out, entries)
    except FileExistsError:
        print(f"tidegate: {out} exists: give another --out", file=sys.stderr)
        return NOT_WRITTEN
    except (SettingsError, OSError) as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return NOT_WRITTEN
    missing = [each for each in entries if each.name.endswith(".missing")]
    for each in missing:
        print(f"tidegate: {each.content.decode().strip()}", file=sys.stderr)
    print(f"{len(entries) - len(missing)} pages are in {out}. It has no secrets.")
    print("It has names of topics, groups and clients, and addresses.")
    return 1 if missing else 0


def _entries(reader: AdminReader, place: Place) -> Iterator[Entry]:
    folder = f"{url_host(place[0])}-{place[1]}".replace("/", "_")
    for page, name in PAGES.items():
        try:
            content = reader.read(place, page, also=UNAVAILABLE)
        except NoAnswer as error:
            yield Entry(f"{folder}/{name}.missing", f"{page}: {error}\n".encode())
            continue
        yield Entry(f"{folder}/{name}", _readable(name, content))


def _readable(name: str, content: bytes) -> bytes:
    if not name.endswith(".json"):
        return content
    try:
        return json.dumps(json.loads(content), indent=1).encode() + b"\n"
    except ValueError:
        return content


def _write(out: Path, entries: Iterable[Entry]) -> None:
    """Write the file whole or not at all; only this user can read it.

    Raises:
      FileExistsError: it exists.  OSError: it cannot be written.
    """
    descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
            for each in entries:
                found = tarfile.TarInfo(f"tidegate-debug/{each.name}")
                found.size = len(each.content)
                found.mtime = int(datetime.now(UTC).timestamp())
                tar.addfile(found, io.BytesIO(each.content))
    except BaseException:
        out.unlink(missing_ok=True)
        raise
