"""Runs the servers of `--real`: PostgreSQL for the log, SeaweedFS for the objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

from .child import write_private
from .postgres import password_file, running_postgres
from .seaweed import running_seaweed

# Environment variables that may be set for other servers.  They would override the variables of
# `dev`.
MISLEADING: Final = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_SESSION_TOKEN",
    "PGPASSWORD",
    "PGSERVICE",
    "PGSSLMODE",
)


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers' URLs, without secrets.

    The secrets are in variables, and for shells in environment_file.
    """

    object_store: str
    log: str
    variables: Mapping[str, str]
    environment_file: Path


@asynccontextmanager
async def running_servers(data: Path) -> AsyncGenerator[Servers]:
    """Run PostgreSQL and SeaweedFS until the block ends.

    Raises:
      ServerFailed: a server does not run here.
    """
    logs = data / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    folder = (data / "postgres").absolute()
    async with (
        running_postgres(folder, logs / "postgres.log") as log,
        running_seaweed((data / "seaweedfs").absolute(), logs / "seaweedfs.log") as store,
    ):
        variables = {"PGPASSFILE": str(password_file(folder)), **store.environment}
        file = data / "environment"
        lines = [f"unset {' '.join(MISLEADING)}\n"]
        lines += [f"export {name}={quote(text)}\n" for name, text in variables.items()]
        write_private(file, "".join(lines))
        yield Servers(store.url, log, variables, file)
