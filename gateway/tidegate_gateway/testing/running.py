"""A gateway for the length of a block."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from .gateway_process import GatewayProcess, Value

START_SECONDS: Final = 30.0
NO_SETTINGS: Final[Mapping[str, Value]] = {}


@contextmanager
def running_gateway(
    settings: Mapping[str, Value] = NO_SETTINGS, *, start_seconds: float = START_SECONDS
) -> Generator[str]:
    """Run a gateway in a process of its own, which keeps all records in memory.

    It listens on a free port of 127.0.0.1, and creates topics when clients ask for them.  Any
    number can run at once, in any thread.  The gateway's process ends with the block, or when the
    caller's process ends in any way.

        with running_gateway({"num.partitions": 3}) as bootstrap:
            producer = Producer({"bootstrap.servers": bootstrap})

    Args:
      settings: by their names in docs/configuration.md, as with `tidegate serve --set`.
      start_seconds: how long the process may take until it serves.

    Yields: the clients' bootstrap.servers, such as "127.0.0.1:40123".

    Raises:
      GatewayFailed: the gateway did not start, or it ended before the block did.
    """
    with GatewayProcess(settings) as process:
        yield process.bootstrap_servers(start_seconds)
        process.check_that_it_runs()
