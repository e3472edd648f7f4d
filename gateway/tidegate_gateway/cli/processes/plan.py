"""Derives the settings of each of several gateways on one machine from one set of settings.  Pure.

The first gateway has the settings unchanged, except for those of the admin listener.  So an
operator can change the number of processes from 1 and back to 1.  The n-th gateway has a node.id
and ports that are n-1 higher.  It has a folder `process-N` in the data folder and in the cache
folder, and a separate audit log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path, PurePath
from typing import Final

from tidegate_runtime.addresses import MAX_PORT
from tidegate_runtime.settings_texts import BadSource

from ...settings.broker_settings import BrokerSettings

AUTO: Final = "auto"
MAX_PROCESSES: Final = 64
_PORT: Final = re.compile(r":(\d+)(?=\s*(?:,|$))")
_WITH_PORTS: Final = (
    "listeners",
    "advertised.listeners",
    "peer.listener",
    "peer.advertised.listener",
)


def process_count(text: str) -> int:
    """Return how many gateways `--processes` asks for; `auto` stands for one for each core.

    Raises:
      BadSource: the text is neither auto nor a number of processes.
    """
    if text == AUTO:
        return min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PROCESSES:
        raise BadSource(f"--processes {text}: give a number up to {MAX_PROCESSES}, or {AUTO}")
    return int(text)


def check_processes(settings: BrokerSettings, count: int) -> None:
    """Check that each of `count` gateways can have its own ports.

    Raises:
      BadSource: two gateways would listen on the same port, or one above MAX_PORT.  A port that one
        gateway has twice is not an error here: it may be on two addresses.  Otherwise the gateway's
        own start fails.
    """
    names = ("listeners", "peer.listener")
    found = [(name, port) for name in names for port in _ports(settings, name)]
    for name, port in found:
        if port and port + count - 1 > MAX_PORT:
            raise BadSource(f"{name}: {count} processes need as many ports from {port} on")
    for (name, port), (other, another) in combinations(found, 2):
        if port and another and 0 < abs(port - another) < count:
            raise BadSource(
                f"{name}: {count} processes need the ports {port} to {port + count - 1}, and"
                f" {other} needs those from {another} on: leave {count} ports between them"
            )
    for name, port in found:
        for admin in _ports(settings, "admin.listener"):
            if port and 0 < admin - port < count:
                raise BadSource(
                    f"{name}: {count} processes need the ports {port} to {port + count - 1}, and"
                    f" admin.listener has {admin}: give it another"
                )


def settings_of(settings: BrokerSettings, process: int) -> BrokerSettings:
    """Return the settings of one process; the first is number 1."""
    more = process - 1
    own = {"node.id": str(settings.int("node.id") + more)}
    own |= {name: _moved(text, more) for name, text in _set(settings, *_WITH_PORTS)}
    if settings.text("admin.listener"):
        # The supervisor reads the gateway's pages there, and serves the pages of all gateways.
        own |= {"admin.listener": "127.0.0.1:0", "admin.security.protocol": "PLAINTEXT"}
    if more:
        own |= {
            name: f"{text}/{_folder(process)}" for name, text in _set(settings, "disk.cache.dir")
        }
        own |= {name: _file_of(text, process) for name, text in _set(settings, "audit.log.file")}
        own |= {name: f"{text}-{process}" for name, text in _set(settings, "instance.key")}
    return replace(settings, static={**settings.static, **own})


def data_of(data: Path, process: int) -> Path:
    """Return the folder of a process's own data."""
    return data if process == 1 else data / _folder(process)


def _folder(process: int) -> str:
    return f"process-{process}"


def _file_of(text: str, process: int) -> str:
    # The name does not end with the number: tools that rotate logs rename files to such names.
    path = PurePath(text)
    return str(path.with_name(f"{path.stem}-{_folder(process)}{path.suffix}"))


def _set(settings: BrokerSettings, *names: str) -> Iterator[tuple[str, str]]:
    for name in names:
        if text := settings.text(name):
            yield name, text


def _ports(settings: BrokerSettings, name: str) -> list[int]:
    return [int(each) for each in _PORT.findall(settings.text(name))]


def _moved(text: str, more: int) -> str:
    """Return addresses with higher ports; port 0, for any free port, stays."""

    def moved(found: re.Match[str]) -> str:
        port = int(found[1])
        return f":{port + more if port else 0}"

    return _PORT.sub(moved, text)
