"""A gateway's instance key, and the locks on its data and cache folders.

The instance key distinguishes a restart of this gateway from another gateway with the same node id
(docs/architecture.md, "Incarnations and claims").  The key is a file in the data folder.  A running
gateway holds a lock on that file: a second gateway on the same folder would register as a restart
of the first, and so end the first one's incarnation.  The folder of the disk cache has a lock, too:
two gateways would each fill it up to the limit.
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
    """The data folder or the cache folder cannot be used.  The text says why and what to do."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A data folder that this process has locked.  instance_key: the same after every restart."""

    path: Path
    instance_key: str
    _descriptor: int

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder for the disk cache that this process has locked."""

    path: Path
    _descriptor: int

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def hold_cache_folder(path: Path) -> CacheFolder:
    """Make the folder if it is missing, and lock it for this process.

    Raises:
      DataFolderUnusable: another gateway uses the folder.
      OSError: the folder cannot be written.
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
      DataFolderUnusable: the folder cannot be written, or another gateway runs on it.
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
    """Return whether a gateway runs on a data folder; creates nothing there."""
    return is_held(folder / KEY_FILE)


def is_held(path: Path) -> bool:
    """Return whether a process holds a file's lock; False if the file cannot be opened.

    If a process tries to take the lock during the check, it is refused; so call this rarely.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # A shared lock, so that two concurrent checks do not take each other for a gateway.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_key(folder: Path) -> str:
    """Return the instance key in a data folder; "" if it is missing or cannot be read."""
    try:
        text = (folder / KEY_FILE).read_text("ascii", "replace")
    except OSError:
        return ""
    return text.strip() if text.endswith("\n") else ""


def _kept_key(folder: Path, descriptor: int) -> str:
    """Return the folder's key; if there is none, make a key and sync it before its first use."""
    text = os.read(descriptor, MAX_KEY_CHARACTERS).decode("ascii", "replace")
    # A key without a line end comes from a crash during its write, so no gateway has used it.
    if text.endswith("\n"):
        return text.strip()
    key = secrets.token_hex(KEY_BYTES)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{key}\n".encode(), 0)
    os.fsync(descriptor)
    sync_folder(folder)
    return key


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that new names in it survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_instance_key() -> str:
    """Return a key for a gateway without a data folder."""
    return secrets.token_hex(KEY_BYTES)


def new_cluster_id() -> str:
    """Return 16 random bytes in Kafka's notation of a Uuid: 22 characters of URL-safe base64.

    As in Kafka, no id begins with '-', so that each can be an argument of a command.
    """
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
