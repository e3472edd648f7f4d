"""The key with which a command seals SCRAM credentials, as the gateways of the cluster do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tidegate_coordination.state.scram import KeptCredential, SealedCredential
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import BadSource

from ...security.sealing import SECRET_KEY, Sealing, checked_key

_NO_KEY = Secret()


def sealing_of(path: Path | None, kept: Iterable[KeptCredential]) -> Sealing:
    """Return the key of a file; without a file one that seals nothing.

    kept: the credentials of the cluster, which say whether its gateways seal, and with which key.

    Raises:
      BadSource: the gateways seal, and there is no key, or it is another one.
      SettingsError: the key is too short.
    """
    sealed = [each for each in kept if isinstance(each, SealedCredential)]
    if path is None and sealed:
        raise BadSource(
            f"the gateways seal SCRAM credentials: give --secret-key FILE with their {SECRET_KEY}"
        )
    sealing = Sealing(_NO_KEY if path is None else _read(path), (), os.urandom)
    if sealed and not any(sealing.is_current(each) for each in sealed):
        raise BadSource(
            f"--secret-key {path}: no credential of the cluster is sealed with this key; it must be"
            f" the {SECRET_KEY} of the gateways"
        )
    return sealing


def _read(path: Path) -> Secret:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSource(f"--secret-key {path}: {error}") from error
    if not text:
        raise BadSource(f"--secret-key {path}: the file is empty")
    return checked_key(SECRET_KEY, Secret(text))
