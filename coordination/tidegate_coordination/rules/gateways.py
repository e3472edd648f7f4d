"""Registration, renewal and the end of gateways; claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..configs.cluster_wide import clusters_own
from ..events.cluster import (
    ClaimReleased,
    ClaimTaken,
    ClusterCreated,
    Endpoint,
    Event,
    GatewayDraining,
    GatewayExpired,
    GatewayRegistered,
    GatewayRenewed,
    MetadataVersionSet,
    StaticSettingsTold,
)
from ..events.metadata_versions import FIRST, NEWEST, OWN_PRODUCER_IDS, SETTINGS_TOLD
from ..state.records.producer_ids import drawn_first_id
from ..state.writers.gateways import DEFAULT_LEASE_MS
from .proposal import GATEWAYS, NOTHING, Decided, View, claim_scope

_GATEWAYS = frozenset({GATEWAYS})


@dataclass(frozen=True, slots=True)
class NodeIdTaken:
    """Another gateway has this node id; registering may work once its lease has expired."""

    zone: str
    software_version: str


class CannotJoin(Enum):
    """Why a gateway can never register; a node id in use is only a temporary refusal."""

    TOO_OLD = "the cluster's metadata.version is above what its release reads"


@dataclass(frozen=True, slots=True)
class Register:
    """Start an incarnation; creates the cluster in an empty log.

    cluster_id, lease_ms: used only if the log is empty.  silent: (incarnation, clock_ms) of the
    gateway with this node id that the caller has watched for a whole lease.  If that gateway has
    not written since, this proposal expires it, since there may be no other gateway to do so.

    before: the next incarnation's number when this was proposed, 0 if the proposal cannot arrive
    late.  A forwarded proposal can arrive twice, and must not end the incarnation that its first
    arrival started.

    highest_version: the metadata.version up to which the gateway can read; a new cluster starts
    there.
    Answer: the incarnation, or the reason of the refusal.
    """

    node_id: int
    instance_key: str
    zone: str
    endpoints: tuple[Endpoint, ...]
    software_version: str
    cluster_id: str
    lease_ms: int = DEFAULT_LEASE_MS
    silent: tuple[int, int] | None = None
    before: int = 0
    highest_version: int = FIRST
    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[int | NodeIdTaken | CannotJoin]:
        """A gateway with the same instance key ends its earlier incarnation at once.

        See docs/architecture.md, "Incarnations and claims".
        """
        gateways = view.state.gateways
        if view.state.metadata_version > self.highest_version:
            return Decided((), CannotJoin.TOO_OLD)
        present = gateways.by_node_id(self.node_id)
        events: list[Event] = []
        if present is not None and 0 < self.before <= present.incarnation:
            return Decided((), NodeIdTaken(present.zone, present.software_version))
        if present is not None and present.instance_key != self.instance_key:
            if self.silent != (present.incarnation, present.clock_ms):
                return Decided((), NodeIdTaken(present.zone, present.software_version))
            events.append(GatewayExpired(present.incarnation))
            present = None
        if not view.state.cluster_id:
            events += self._beginning()
        events.append(
            GatewayRegistered(
                gateways.next_incarnation,
                self.node_id,
                self.instance_key,
                self.zone,
                self.endpoints,
                self.software_version,
                present.incarnation if present is not None else 0,
                self.highest_version,
            )
        )
        return Decided(events, gateways.next_incarnation)

    def _beginning(self) -> list[Event]:
        """Return the events of a new cluster.

        Its version is the highest that both its first gateway and the deciding one can read.
        """
        version = min(self.highest_version, NEWEST)
        first_id = drawn_first_id(self.cluster_id) if version >= OWN_PRODUCER_IDS else 0
        created = ClusterCreated(self.cluster_id, 1, self.lease_ms, first_id)
        return [created, MetadataVersionSet(version)] if version > FIRST else [created]


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew the writer's lease, and repeat the version it can read; 0: none.  Answer: None."""

    highest_version: int = 0
    reads: frozenset[str] = field(default=NOTHING, init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[None]:
        """Any entry of the writer renews its lease; the event makes the entry not empty."""
        return Decided((GatewayRenewed(self.highest_version),), None)


@dataclass(frozen=True, slots=True)
class TellSettings:
    """Write a gateway's static settings that apply to the whole cluster.

    settings: only the set ones, by name.  Answer: None.
    """

    incarnation: int
    settings: dict[str, str]
    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[None]:
        """Return no event if the log holds these settings already; see decision 23."""
        state = view.state
        gateway = state.gateways.live.get(self.incarnation)
        if gateway is None or not gateway.is_broker or state.metadata_version < SETTINGS_TOLD:
            return Decided((), None)
        settings = clusters_own(self.settings)
        if not state.static_settings.is_due(gateway.node_id, settings, state.settled_time_ms):
            return Decided((), None)
        return Decided((StaticSettingsTold(self.incarnation, settings),), None)


@dataclass(frozen=True, slots=True)
class StartDraining:
    """Take no new work.  Answer: None."""

    incarnation: int
    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        gateway = view.state.gateways.live.get(self.incarnation)
        if gateway is None or gateway.draining:
            return Decided((), None)
        return Decided((GatewayDraining(self.incarnation),), None)


@dataclass(frozen=True, slots=True)
class Leave:
    """End the writer's own incarnation; its last entry.  Answer: None."""

    incarnation: int
    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        if not view.state.gateways.is_live(self.incarnation):
            return Decided((), None)
        return Decided((GatewayExpired(self.incarnation),), None)


@dataclass(frozen=True, slots=True)
class ExpireGateways:
    """End the incarnations whose lease expired.  Answer: the ended incarnations."""

    reads: frozenset[str] = field(default=_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_GATEWAYS, init=False)

    def decide(self, view: View) -> Decided[list[int]]:
        """Expire neither the entry's appender nor an author of its proposals: they are live."""
        alive = {view.writer, view.appender, *view.acknowledged}
        ended = [each for each in view.state.gateways.expired() if each not in alive]
        return Decided([GatewayExpired(each) for each in ended], ended)


@dataclass(frozen=True, slots=True)
class TakeClaim:
    """Take the claim of a name; only its holder may make the changes that it guards.

    Answer: the claim's epoch if the writer holds it now, None if another live gateway does, or if
    the writer drains and others do not.
    """

    name: str

    @property
    def reads(self) -> frozenset[str]:
        """The claim, and the table of gateways."""
        return frozenset({claim_scope(self.name), GATEWAYS})

    @property
    def writes(self) -> frozenset[str]:
        """The claim."""
        return frozenset({claim_scope(self.name)})

    def decide(self, view: View) -> Decided[int | None]:
        """See the class."""
        claim = view.state.claims.get(self.name)
        if claim is not None and claim.incarnation == view.writer:
            return Decided((), claim.epoch)
        if claim is not None and view.state.gateways.is_live(claim.incarnation):
            return Decided((), None)
        if view.state.gateways.sends_away(view.writer):
            return Decided((), None)
        epoch = claim.epoch + 1 if claim is not None else 1
        return Decided((ClaimTaken(self.name, view.writer, epoch),), epoch)


@dataclass(frozen=True, slots=True)
class ReleaseClaim:
    """Give a claim up.  Answer: None."""

    name: str

    @property
    def reads(self) -> frozenset[str]:
        """The claim."""
        return frozenset({claim_scope(self.name)})

    @property
    def writes(self) -> frozenset[str]:
        """The claim."""
        return frozenset({claim_scope(self.name)})

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        claim = view.state.claims.get(self.name)
        if claim is None or claim.incarnation != view.writer:
            return Decided((), None)
        return Decided((ClaimReleased(self.name),), None)
