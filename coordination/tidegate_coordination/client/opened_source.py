"""The source of a link, as a command connects to it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import trio

from tidegate_runtime.settings_texts import BadSource

from .cluster import ClassicCluster
from .errors import ClassicError
from .properties.client import ClientProperties, read_client_properties, without_effect
from .retries import Backoff
from .wire.dialling import dial_of


def properties_of(bootstrap_servers: str, file: Path | None) -> ClientProperties:
    """Return a client's properties: those of the file, with these servers.

    Raises:
      BadSource: one is wrong, or the file cannot be read.
    """
    servers = f"bootstrap.servers={bootstrap_servers}\n"
    try:
        plain = read_client_properties(servers, "--bootstrap-servers")
        if file is None:
            return plain
        text = file.read_text(encoding="utf-8")
        found = read_client_properties(servers + text, str(file))
    except (ClassicError, OSError, UnicodeError) as error:
        raise BadSource(str(error)) from None
    return replace(found, bootstrap_servers=plain.bootstrap_servers)


CONNECT_SECONDS: Final = 15.0
SAY_SECONDS: Final = 2.0
_FILE: Final = "give the client properties of the source with --client-properties FILE"


@asynccontextmanager
async def opened_source(
    bootstrap_servers: str, file: Path | None
) -> AsyncGenerator[ClassicCluster, None]:
    """Connect to the source; its metadata holds its brokers, and no topic.

    Raises:
      BadSource: the properties are wrong, no broker answers, or the block met a ClassicError.
    """
    properties = properties_of(bootstrap_servers, file)
    told = without_effect(properties.unknown)
    if told:
        _say(f"{file}: {told}")
    try:
        async with connected(properties) as cluster:
            yield cluster
    except BadSource as error:
        raise BadSource(with_advice(str(error), _FILE if file is None else "")) from None


def with_advice(problem: str, advice: str) -> str:
    """Return the text of a connection problem, with advice if its properties may be the reason.

    advice: "" if there is a file of client properties.
    """
    if not advice or "security.protocol" not in problem:
        return problem
    return f"{problem.removesuffix('.')}; {advice}."


def _say(text: str) -> None:
    print(f"tidegate: {text}", file=sys.stderr, flush=True)


@asynccontextmanager
async def connected(
    properties: ClientProperties, *, repeat_seconds: float = CONNECT_SECONDS
) -> AsyncGenerator[ClassicCluster, None]:
    """Connect to a cluster; its metadata holds its brokers, and no topic.

    repeat_seconds: how long a call is repeated.

    Raises:
      BadSource: the properties are wrong, no broker answers, or the block met a ClassicError.
    """
    # Errors are raised outside of the nursery, which would wrap them in exception groups.
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            cluster = await _connected(nursery, properties, repeat_seconds)
            yield cluster
        except ClassicError as error:
            failure = BadSource(str(error))
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _connected(
    nursery: trio.Nursery, properties: ClientProperties, repeat_seconds: float
) -> ClassicCluster:
    dial = dial_of(properties)
    servers = ",".join(map(str, properties.bootstrap_servers))

    async def tell() -> None:
        await trio.sleep(SAY_SECONDS)
        _say(f"waiting for {servers}, for {repeat_seconds:.0f} s at most")

    backoff = Backoff(total_seconds=repeat_seconds)
    rng = Random(os.urandom(32))
    cluster = ClassicCluster(nursery, dial, properties, rng=rng, backoff=backoff)
    async with trio.open_nursery() as waiting:
        waiting.start_soon(tell)
        try:
            await cluster.refresh([])
        except ClassicError as error:
            failure: ClassicError | None = error
        else:
            failure = None
        waiting.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return cluster
