"""Checks that a client changes nothing once the log has revoked its right (decision 35)."""

from __future__ import annotations

from collections.abc import Callable

from tidegate_coordination.events.cluster import ConfigsSet
from tidegate_coordination.security.acls import Operation, Permission
from tidegate_coordination.state.cluster import ClusterState

from ..plans.security.rights_plan import ADMIN, TOPIC


def check_right(
    state: ClusterState, event: ConfigsSet, complain: Callable[[str, str], None]
) -> None:
    """Check one change of configs, by the ACLs before its entry.

    Only the guarded administrator sets configs of the guarded topic.  Changes of ACLs and of
    configs share no entry, since a proposal with rights reads the ACLs.
    """
    if event.resource_name != TOPIC:
        return
    if any(
        each.host == ADMIN
        and each.permission == Permission.DENY
        and each.operation == Operation.ALTER_CONFIGS
        for each in state.acls
    ):
        complain("a denied client set a config", f"after entry {state.position}")
