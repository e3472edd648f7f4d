"""Who this gateway is: ids that are made once and kept, and the lock on the data folder.

The instance key tells a restart of this gateway from another one with its node id
(docs/architecture.md, "Incarnations and claims").  It lies in the data folder; while a gateway runs
it holds a lock on that file, since a second one on the same folder would take itself for the first
one's restart and end it.  The folder of the disk cache has a lock, too: two gateways would each
fill it up to its bound.
"""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEY_FILE: Final = "instance.key"
LOCK_FILE: Final = "lock"
KEY_BYTES: Final = 16
MAX_KEY_CHARACTERS: Final = 200


class DataFolderUnusable(Exception):
    """The data folder cannot be used.  The text says why and what to do."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A data folder that this process holds.  instance_key: the same for every life of it."""

    path: Path
    instance_key: str
    _descriptor: int

    def close(self) -> None:
        """Let another process have the folder."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder for the disk cache that this process holds."""

    path: Path
    _descriptor: int

    def close(self) -> None:
        """Let another process have the folder."""
        os.close(self._descriptor)


def hold_cache_folder(path: Path) -> CacheFolder:
    """Make the folder if it is missing, and lock it for this process.

    Raises:
      DataFolderUnusable: another gateway uses it.
      OSError: it cannot be written.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DataFolderUnusable(
            f"another gateway uses the disk cache in {path}. Give each a disk.cache.dir of its own"
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return CacheFolder(path, descriptor)


def hold_data_folder(path: Path) -> DataFolder:
    """Make the folder and its key if they are missing, and lock them for this process.

    Raises:
      DataFolderUnusable: it cannot be written, or another gateway runs on it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / KEY_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataFolderUnusable(
            f"the data folder {path} cannot be used: {error.strerror}. Choose another with --data"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return DataFolder(path, _kept_key(path, descriptor), descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise DataFolderUnusable(
            f"another gateway runs on the data folder {path}. Stop it, or choose another --data"
        ) from None
    except BaseException:
        os.close(descriptor)
        raise


def runs_on(folder: Path) -> bool:
    """Tell whether a gateway runs on a data folder; nothing is made there."""
    return is_held(folder / KEY_FILE)


def is_held(path: Path) -> bool:
    """Tell whether a process holds a file's lock; one that cannot be opened is held by nobody.

    Whoever wants the lock in this very moment is refused it, so ask rarely.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that two who ask do not take each other for a gateway.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_key(folder: Path) -> str:
    """Return the instance key that a data folder keeps; "" if there is none to be read."""
    try:
        text = (folder / KEY_FILE).read_text("ascii", "replace")
    except OSError:
        return ""
    return text.strip() if text.endswith("\n") else ""


def _kept_key(folder: Path, descriptor: int) -> str:
    """Read the key, or make one: durable before it is used."""
    text = os.read(descriptor, MAX_KEY_CHARACTERS).decode("ascii", "replace")
    # A crash while it was written leaves a line without its end: nobody used that key yet.
    if text.endswith("\n"):
        return text.strip()
    key = secrets.token_hex(KEY_BYTES)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{key}\n".encode(), 0)
    os.fsync(descriptor)
    _sync_folder(folder)
    return key


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_instance_key() -> str:
    """Return a key for a gateway that keeps nothing."""
    return secrets.token_hex(KEY_BYTES)


def new_cluster_id() -> str:
    """Return 16 random bytes as Kafka writes a Uuid: 22 characters of URL-safe base64.

    None begins with '-', as in Kafka, so that it can be an argument of a command.
    """
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
