"""The copiers: Kafka's own, and programs of ours for other clients, with the same options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import install
from harness.places import HERE
from harness.process import Command

from exactly_once.clients import java

COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"


@dataclass(frozen=True, slots=True)
class Copying:
    """The task of all copiers of a round.

    is_group: the copiers share the partitions as a group.  ids: the prefix of their transactional
    ids.
    """

    bootstrap: str
    source: str
    target: str
    group: str
    transaction_size: int
    timeout_ms: int
    is_group: bool
    aborts: bool
    ids: str = "copier"

    def words(self, number: int) -> list[str]:
        """Return the options of copier `number`, counted from 0."""
        told = {
            "--broker-list": self.bootstrap,
            "--input-topic": self.source,
            "--input-partition": number,
            "--output-topic": self.target,
            "--consumer-group": self.group,
            "--transactional-id": f"{self.ids}-{number}",
            "--transaction-size": self.transaction_size,
            "--transaction-timeout": self.timeout_ms,
        }
        words = [str(each) for pair in told.items() for each in pair]
        words += ["--group-mode"] if self.is_group else []
        words += ["--enable-random-aborts"] if self.aborts else []
        return [*words, "--use-group-metadata"]


def _java(logs: Path) -> Command:
    return java(f"{install.kafka_jars()}/*", logs, COPIER)


def _librdkafka(_logs: Path) -> Command:
    return [sys.executable, HERE / "exactly_once" / "librdkafka_copier.py"]


def _franz_go(_logs: Path) -> Command:
    return [install.go_clients() / "copier"]


COPIERS: Final[Mapping[str, Callable[[Path], Command]]] = {
    "java": _java,
    "librdkafka": _librdkafka,
    "franz-go": _franz_go,
}
"""librdkafka speaks transaction.version 1 only; the others speak 2."""
MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "java": ("assigned", "group"),
    "librdkafka": ("assigned", "group"),
    "franz-go": ("group",),  # its transactional session is a member of a group
}
