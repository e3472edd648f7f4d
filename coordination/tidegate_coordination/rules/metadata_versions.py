"""Raising the cluster's metadata.version; see events/metadata_versions.py and decision 18."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..events.cluster import MetadataVersionSet
from ..events.metadata_versions import FEATURE_NAME, FIRST, NEWEST
from ..state.cluster import ClusterState
from ..state.writers.gateways import Gateway
from .proposal import GATEWAYS, Decided, View

# A gateway that registers in the same entry must be able to read the new version.
_GATEWAYS = frozenset({GATEWAYS})


@dataclass(frozen=True, slots=True)
class SetMetadataVersion:
    """Let gateways write what a version allows, from the next entry on.

    only_checks: check, and change nothing.  Answer: "" on success, or the reason of the refusal,
      for a person.
    """

    version: int
    only_checks: bool = False
    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[str]:
        """All live gateways must read the version; later ones are checked when they register."""
        if self.version == view.state.metadata_version:
            return Decided((), "")
        refusal = why_not(view.state, self.version)
        if refusal or self.only_checks:
            return Decided((), refusal)
        return Decided((MetadataVersionSet(self.version),), "")


def why_not(state: ClusterState, version: int) -> str:
    """Return why the cluster cannot change to another version; "" if it can."""
    if version < FIRST or version > NEWEST:
        return f"This release of Tidegate knows {FEATURE_NAME} {FIRST} to {NEWEST}."
    if version < state.metadata_version:
        return (
            f"{FEATURE_NAME} is {state.metadata_version} and cannot be lowered: what was written"
            " since then cannot be read by releases that only know a lower one."
        )
    behind = [each for each in state.gateways.live.values() if each.highest_version < version]
    if not behind:
        return ""
    return (
        f"Not all gateways can read {FEATURE_NAME} {version} yet: {', '.join(map(_named, behind))}."
        " Run a newer release on them first, or wait until those that stopped are forgotten."
    )


def _named(gateway: Gateway) -> str:
    kind = "gateway" if gateway.is_broker else f"{gateway.instance_key.rpartition('-')[0]} process"
    release = gateway.software_version
    return f"{kind} {gateway.node_id} (release {release}, up to {gateway.highest_version})"
