"""Opening a log or a store that exists already: nothing is created."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore, StoreMisconfigured

from .log.load import open_log
from .log.metadata_log import LogMisconfigured, MetadataLog
from .logs.movable import MovableLog


def sqlite_path(url: str) -> Path | None:
    """Return the file of a `sqlite:` URL; None for other logs."""
    scheme, _, rest = url.partition(":")
    return Path(rest.removeprefix("//")) if scheme == "sqlite" else None


async def open_existing_log(url: str) -> MetadataLog:
    """Open a log; do not create a missing file.  Raises: LogMisconfigured: there is no log at the
    URL.
    """
    path = sqlite_path(url)
    if path is not None and not path.exists():
        raise LogMisconfigured(
            f"there is no file {path}; name the cluster's log, as its gateways' metadata.log does"
        )
    return await open_log(url)


async def open_followed_log(url: str) -> MovableLog:
    """Open a log; if it was moved, open the one that it was moved to.

    Raises:
      LogMisconfigured: there is none.
    """
    return MovableLog(await open_existing_log(url), open_existing_log)


def open_existing_store(url: str) -> ObjectStore:
    """Open a store; do not create a missing folder.

    Raises:
      StoreMisconfigured: there is none.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and not Path(unquote(parts.path)).is_dir():
        raise StoreMisconfigured(
            f"there is no folder {unquote(parts.path)}; name the cluster's store, as its gateways'"
            " object.store does"
        )
    return open_store(url)
