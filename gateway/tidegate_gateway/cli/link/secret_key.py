"""The key with which a command seals SCRAM credentials, as the gateways of the cluster do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tidegate_coordination.events.metadata_versions import SEALS
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.security.scram import SealedCredential
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import BadSource

from ...security.sealing import FORGET, SECRET_KEY, Sealing
from ..key_file import read_key

UNPROVED: Final = (
    f"No credential of the cluster is sealed yet, so nothing proves that the file of --secret-key"
    f" holds the {SECRET_KEY} of the gateways. With another key these users cannot log in, and no"
    " gateway starts again."
)
PLAIN_BESIDE: Final = (
    "Other credentials of the cluster are sealed. These will be plain in the metadata log and its"
    " backups."
)
_NO_KEY = Secret()


def sealing_with(path: Path | None, state: ClusterState, *, is_plain: bool) -> Sealing:
    """Return the sealing with the key of a file; without a file, one that seals nothing.

    If the cluster has sealed credentials, they show which key the gateways have.  If the cluster
    has no sealed credentials, only the operator knows whether the gateways have a key.  A plain
    credential stays in the log and its backups.  So the command insists on an answer, and prints
    the warning of doubt().

    Args:
      is_plain: the person says that the gateways have no key.

    Raises:
      BadSource: there is no key, but the gateways may seal credentials; or the gateways have
        another key.
      SettingsError: see read_key().
    """
    sealed = [each for each in state.scram if isinstance(each, SealedCredential)]
    if path is None:
        if not is_plain and sealed:
            raise BadSource(
                "the gateways seal SCRAM credentials: give --secret-key FILE with their"
                f" {SECRET_KEY}; if it is lost, see `{FORGET}`"
            )
        if not is_plain and state.metadata_version >= SEALS:
            raise BadSource(
                f"give --secret-key FILE with the {SECRET_KEY} of the gateways, or --plain if they"
                " have none"
            )
        return Sealing(_NO_KEY, (), os.urandom)
    sealing = Sealing(read_key(path), (), os.urandom)
    if sealed and not any(sealing.is_current(each) for each in sealed):
        raise BadSource(
            f"--secret-key {path}: no credential of the cluster is sealed with this key; it must be"
            f" the {SECRET_KEY} of the gateways; if that is lost, see `{FORGET}`"
        )
    return sealing


def doubt(sealing: Sealing, state: ClusterState) -> str:
    """Return a warning to the operator before credentials are set; "" if there is none."""
    if sealing.seals:
        return "" if any(sealing.is_current(each) for each in state.scram) else UNPROVED
    return PLAIN_BESIDE if any(isinstance(each, SealedCredential) for each in state.scram) else ""
