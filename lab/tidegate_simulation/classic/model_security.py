"""The ACLs, client quotas and SCRAM users that a model cluster shows.  Pure.

They decide nothing in the model: Rights holds the denials of principals there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate_coordination.security.acls import Acl
from tidegate_coordination.security.quotas import QuotaEntity


@dataclass(slots=True)
class ModelSecurity:
    """acls: None without an authorizer.  quotas: by entity and key.  users: iterations by user and
    number of the mechanism.
    """

    acls: set[Acl] | None = None
    quotas: dict[QuotaEntity, dict[str, float]] = field(
        default_factory=dict[QuotaEntity, dict[str, float]]
    )
    users: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
