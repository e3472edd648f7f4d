"""The pipeline of `tidegate dev`: a process of its own, found like any `tidegate` command.

The pipeline ends at the end of its standard input, so it cannot outlive this process, even after a
kill.  Ctrl+C in the terminal reaches only the gateway, which then ends the pipeline.  The pipeline
gets the URLs of log and store by environment variables: the URLs may hold secrets, and a list of
processes shows arguments.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import IO, Final, cast
from urllib.parse import quote

from tidegate_runtime.url_secrets import without_secrets

from ...settings.broker_settings import BrokerSettings

STOP_SECONDS: Final = 60.0
# `tidegate pipeline` reads these variables if --log and --object-store are absent.
LOG_VARIABLE: Final = "TIDEGATE_PIPELINE_LOG"
STORE_VARIABLE: Final = "TIDEGATE_PIPELINE_STORE"


def default_store(data: Path) -> str:
    """Return the URL of the object store below a folder."""
    return f"file:{quote(str(data))}/objects"


def default_log(data: Path) -> str:
    """Return the URL of the metadata log below a folder."""
    return f"sqlite:{data}/metadata.db"


def what_is_in_memory(settings: BrokerSettings) -> str:
    """Return the first setting with a memory: URL, which processes cannot share, or ""."""
    for name in ("object.store", "metadata.log"):
        if settings.secret(name).reveal().startswith("memory:"):
            return name
    return ""


def shown_command(settings: BrokerSettings, data: Path, called: str) -> str:
    """Return the command that starts a pipeline by hand, without secrets.

    called: see called_as.py.
    """
    store = settings.secret("object.store").reveal()
    log = settings.secret("metadata.log").reveal()
    if (store, log) == (default_store(data), default_log(data)):
        return f"{called} {shlex.join(['pipeline', 'run', '--data', str(data)])}"
    shown = without_secrets(log)
    urls = ["--object-store", without_secrets(store), "--log", shown]
    left_out = "" if shown == log else f" (or the log's whole URL as {LOG_VARIABLE})"
    return f"{called} {shlex.join(['pipeline', 'run', *urls])}{left_out}"


class PipelineProcess:
    """`tidegate pipeline run`, from start() to the end of the block."""

    def __init__(self, *, log_level: str) -> None:
        self._log_level = log_level
        self._popen: subprocess.Popen[bytes] | None = None
        self._is_told = Event()

    def start(self, settings: BrokerSettings) -> None:
        """Start the pipeline on a gateway's log and store; its log lines go to stderr."""
        command = [sys.executable, "-m", "tidegate_gateway", "pipeline", "run", "--stop-at-eof"]
        places = {
            LOG_VARIABLE: settings.secret("metadata.log").reveal(),
            STORE_VARIABLE: settings.secret("object.store").reveal(),
        }
        popen = self._popen = subprocess.Popen(
            [*command, "--log-level", self._log_level],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=os.environ | places,
            process_group=0,
        )
        Thread(target=self._watch, args=(popen,), daemon=True).start()

    def _watch(self, popen: subprocess.Popen[bytes]) -> None:
        code = popen.wait()
        if not self._is_told.is_set():
            text = f"tidegate: the pipeline ended (exit code {code}); the gateway continues"
            print(text, file=sys.stderr, flush=True)

    def __enter__(self) -> PipelineProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_told.set()
        if self._popen is None:
            return
        cast("IO[bytes]", self._popen.stdin).close()
        try:
            _ = self._popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            _ = self._popen.wait()
