"""The file of users' new passwords: a JSON object of names and passwords, for its owner only."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tidegate_runtime.settings_texts import BadSource

from ...instance import sync_folder
from ...migration.carry.scram_plan import password_problem

_PASSWORD_BYTES: Final = 24
_OWNER_ONLY: Final = 0o600
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def made_passwords(users: Iterable[str]) -> dict[str, str]:
    """Return a random password for each user."""
    return {each: secrets.token_urlsafe(_PASSWORD_BYTES) for each in users}


def write_passwords(path: Path, passwords: Mapping[str, str]) -> None:
    """Write a new file, and sync it to the disk; if that fails, remove the file.

    Raises:
      BadSource: it exists, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        try:
            _fill(descriptor, passwords)
            sync_folder(path.parent)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadSource(f"--generate {path}: {error.strerror}") from None


def _fill(descriptor: int, passwords: Mapping[str, str]) -> None:
    """Write all bytes, and close the file."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(passwords, indent=1) + "\n")
        file.flush()
        os.fsync(descriptor)


def read_passwords(path: Path) -> dict[str, str]:
    """Return the passwords of a file.

    Raises:
      BadSource: it cannot be read, others may read it, or a password cannot be set.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OF_OTHERS:
                raise BadSource(f"--passwords {path}: others may read it: chmod 600 it first")
            found = msgspec.json.decode(file.read(), type=dict[str, str])
    except OSError as error:
        raise BadSource(f"--passwords {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeError):
        text = 'it is no JSON object of users and passwords, as {"alice": "..."}'
        raise BadSource(f"--passwords {path}: {text}") from None
    for user, password in found.items():
        problem = password_problem(password)
        if problem:
            raise BadSource(f"--passwords {path}: the password of {user!r}: {problem}")
    return found
