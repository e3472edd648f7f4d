"""The feature of SCRAM credentials (KIP-554)."""

from __future__ import annotations

from ...feature import Feature, Ground, Row, Task, always
from ...security.sealing import Sealing
from ...upkeep.resealing import Resealer
from .acts import credentials_altered
from .guards import guard_alter_user_scram_credentials, guard_describe_user_scram_credentials
from .scram import AlterUserScramCredentials, DescribeUserScramCredentials


def scram_feature(ground: Ground, sealing: Sealing) -> Feature:
    """Return the feature.  sealing: of the credentials."""
    return Feature(
        "SCRAM credentials",
        (
            Row(
                DescribeUserScramCredentials(ground.coordinator),
                guard_describe_user_scram_credentials,
                lists=True,
            ),
            Row(
                AlterUserScramCredentials(ground.coordinator, sealing),
                guard_alter_user_scram_credentials,
                act=credentials_altered,
                is_audited=True,
                proposes=always,
            ),
        ),
        (Task("seal SCRAM credentials", Resealer(ground.coordinator, sealing).run),),
    )
