"""The promises about what gateways look up in the state: they all find the same, and the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate_coordination.events.metadata_versions import SETTINGS_TOLD
from tidegate_coordination.rules.cluster_settings import ClusterSettings, Own
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.security.scram import ScramMechanism

from ...invariants.offsets_checks import OffsetsWatch, last_values

_RETENTION: Final = "retention.ms"


class ViewPromises:
    """See the module's head.  complain: called with the text of a violation."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain: Final = complain

    def check(self, state: ClusterState) -> None:
        """Check a replica."""
        self._check_settings(state)
        self._check_offsets_topic(state)
        for credential in state.scram:
            mechanism = ScramMechanism(credential.mechanism).sasl_name
            found = state.scram.by_sasl_name(mechanism, credential.user)
            if found != credential:
                self._complain(f"a login by {mechanism} finds {found}, and not {credential}")
        for name in state.transactions.names():
            link = state.link_groups.link_of_id(name)
            if link:
                self._complain(f"{name} has a row, and is looked for at the source of {link}")

    def _check_settings(self, state: ClusterState) -> None:
        """Check that gateways with different static settings use the same value."""
        if state.metadata_version < SETTINGS_TOLD:
            return
        told = state.static_settings.by_node_id
        brokers = (each.node_id for each in state.gateways.brokers())
        owns = (Own(each, told[each].settings) for each in brokers if each in told)
        values = {
            each.node_id: ClusterSettings(state, each).default_of(_RETENTION) for each in owns
        }
        if len(set(values.values())) > 1:
            self._complain(f"gateways go by other values of {_RETENTION}: {values}")

    def _check_offsets_topic(self, state: ClusterState) -> None:
        def complain(kind: str, text: str) -> None:
            self._complain(f"{kind}: {text}")

        if state.offsets_topic.by_number:
            watch = OffsetsWatch(state, lambda _, text: self._complain(text), complain)
            watch.judge_all(last_values(state))
