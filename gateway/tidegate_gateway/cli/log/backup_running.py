"""What `tidegate log backup`, `restore` and `repair` share: opening, progress, an exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import trio

from tidegate_coordination.backup.recovery import NothingToRestore
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import LogMisconfigured, MetadataLog
from tidegate_coordination.logs.movable import MovableLog
from tidegate_runtime.log_lines import configure_logs
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore, StoreMisconfigured

from ..telling import was_told

SAID_EVERY_SECONDS: Final = 2.0

Lines = list[str]


class Progress:
    """Says on stderr how far long work is, now and then."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._said_at = time.monotonic()

    def __call__(self, text: str) -> None:
        """Say it, unless something was said a moment ago."""
        now = time.monotonic()
        if not self._quiet and now - self._said_at >= SAID_EVERY_SECONDS:
            self._said_at = now
            print(f"... {text}", file=sys.stderr, flush=True)


def run_log_command(
    work: Callable[[Progress], Awaitable[tuple[int, Lines, dict[str, object]]]], *, as_json: bool
) -> int:
    """Do the work and print what it returns: exit code, lines for a person, values for a script."""
    configure_logs("error")
    try:
        code, lines, values = trio.run(work, Progress(quiet=as_json))
    except NothingToRestore as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if not was_told(error):
            raise
        return 1
    print(json.dumps(values) if as_json else "\n".join(lines))
    return code


def sqlite_path(url: str) -> Path | None:
    """Return the file of a `sqlite:` URL; None for other logs."""
    scheme, _, rest = url.partition(":")
    return Path(rest.removeprefix("//")) if scheme == "sqlite" else None


async def open_existing_log(url: str) -> MetadataLog:
    """Open a log; a file that is not there is not made.

    Raises:
      LogMisconfigured: there is none.
    """
    path = sqlite_path(url)
    if path is not None and not path.exists():
        raise LogMisconfigured(
            f"there is no file {path}; name the cluster's log, as its gateways' metadata.log does"
        )
    return await open_log(url)


async def open_followed_log(url: str) -> MetadataLog:
    """Open a log; where it was moved to another one, go on there.

    Raises:
      LogMisconfigured: there is none.
    """
    return MovableLog(await open_existing_log(url), open_existing_log)


def open_existing_store(url: str) -> ObjectStore:
    """Open a store; a folder that is not there is not made.

    Raises:
      StoreMisconfigured: there is none.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and not Path(unquote(parts.path)).is_dir():
        raise StoreMisconfigured(f"there is no folder {unquote(parts.path)}")
    return open_store(url)
