"""The client programs, one of each library, and their files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from faults.clients import Family
from harness import install
from harness.places import HERE
from harness.process import Command
from harness.toolbox import java_command

from logins.ledger import LibraryLedger
from logins.plan import Plan


def _python(name: str) -> Command:
    return [sys.executable, "-W", "ignore", HERE / "logins" / f"{name}_client.py"]


def _java() -> Command:
    return [*java_command(), HERE / "java" / "LoginClient.java"]


def _kafkajs() -> Command:
    return ["node", install.node_client("kafkajs") / "logins.js"]


def _go(name: str) -> Command:
    return [install.go_clients() / f"{name}-logins"]


COMMANDS: Final[Mapping[str, Callable[[], Command]]] = {
    "librdkafka": lambda: _python("librdkafka"),
    "java": _java,
    "franz-go": lambda: _go("franz-go"),
    "kafka-python": lambda: _python("kafka_python"),
    "aiokafka": lambda: _python("aiokafka"),
    "kafkajs": _kafkajs,
    "sarama": lambda: _go("sarama"),
}


def start(library: str, plan: Plan, folder: Path) -> Family[LibraryLedger]:
    """Start a program.  The folder keeps its file, its lines and its standard error."""
    file = folder / f"{library}.json"
    file.write_bytes(msgspec.json.encode(plan))
    ledger = LibraryLedger(library, [each.mechanism for each in plan.logins])
    command = [*COMMANDS[library](), str(file)]
    return Family(library, command, ledger, log=folder / f"{library}.log")
