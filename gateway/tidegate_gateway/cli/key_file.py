"""Reads the file of --secret-key, which holds a key that gateways seal SCRAM credentials with."""

from __future__ import annotations

from pathlib import Path

from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import BadSource

from ..security.sealing import SECRET_KEY, checked_key


def read_key(path: Path) -> Secret:
    """Return the key of a file.

    Raises:
      BadSource: the file cannot be read, or is empty.
      SettingsError: see checked_key().
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSource(f"--secret-key {path}: {error}") from error
    if not text:
        raise BadSource(f"--secret-key {path}: the file is empty")
    return checked_key(SECRET_KEY, Secret(text))
