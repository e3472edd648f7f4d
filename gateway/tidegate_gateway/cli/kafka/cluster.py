"""Connects a command to a Kafka cluster, ours or another, as its clients do."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.failed import Failed
from tidegate_coordination.client.opened_source import connected
from tidegate_coordination.client.properties.client import (
    DEFAULT_CLIENT_ID,
    ClientProperties,
    read_client_properties,
)
from tidegate_protocol.errors import LocalProtocolError
from tidegate_runtime.settings_texts import BadSource, SettingsError

from ..output.table import printable
from .options import DEFAULT_BOOTSTRAP, KafkaPlace

CLIENT_ID: Final = "tidegate"
REPEAT_SECONDS: Final = 5.0
"""A call is repeated for so long: a person waits."""
NOT_DONE: Final = 1
NOT_TOLD: Final = 2


def client_properties(place: KafkaPlace) -> ClientProperties:
    """Return how to connect.  --bootstrap overrides the file, and the file overrides the default.

    Raises:
      BadSource: the file cannot be read, or a property is wrong.
    """
    servers = f"bootstrap.servers={place.bootstrap or DEFAULT_BOOTSTRAP}\n"
    try:
        found = read_client_properties(servers, "--bootstrap")
        if place.properties is not None:
            text = place.properties.read_text(encoding="utf-8")
            of_file = read_client_properties(servers + text, str(place.properties))
            given = found.bootstrap_servers if place.bootstrap else of_file.bootstrap_servers
            found = replace(of_file, bootstrap_servers=given)
    except (ClassicError, OSError, UnicodeError) as error:
        raise BadSource(str(error)) from None
    return replace(found, client_id=CLIENT_ID) if found.client_id == DEFAULT_CLIENT_ID else found


@asynccontextmanager
async def opened_kafka(place: KafkaPlace) -> AsyncGenerator[ClassicCluster, None]:
    """Connect to the cluster.

    Raises:
      BadSource: it cannot be reached, or the block met a ClassicError.
    """
    is_open = False
    try:
        async with connected(client_properties(place), repeat_seconds=REPEAT_SECONDS) as cluster:
            is_open = True
            yield cluster
    except BadSource as error:
        if is_open or place.bootstrap or place.properties:
            raise
        raise BadSource(f"{error} Give --bootstrap, or start a gateway: tidegate dev") from None


def run_client(place: KafkaPlace, work: Callable[[ClassicCluster], Awaitable[int]]) -> int:
    """Run a command's work; return its exit code, and print why the work failed."""

    async def whole() -> int:
        async with opened_kafka(place) as cluster:
            return await work(cluster)

    try:
        return trio.run(whole)
    except Failed as error:
        complain(str(error))
        return NOT_DONE
    except (BadSource, SettingsError, ClassicError) as error:
        complain(str(error))
        return NOT_TOLD
    except LocalProtocolError as error:  # a name that is no UTF-8, or a number that is too large
        complain(f"an option or argument cannot be sent: {error}")
        return NOT_TOLD


def complain(text: str) -> None:
    """Print a sentence on stderr, in printable characters: it may hold text from other clients."""
    print(f"tidegate: {printable(text)}", file=sys.stderr, flush=True)


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Read NAME=VALUE texts.

    Raises:
      BadSource: one has another form, or a name is there twice.
    """
    found: dict[str, str] = {}
    for each in texts:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise BadSource(f"{option} {each} is not NAME=VALUE")
        if name in found:
            raise BadSource(f"{option} names {name} twice")
        found[name] = value
    return found
