"""From an address of a log to a live incarnation: load, check, register."""

from __future__ import annotations

from dataclasses import replace

import structlog
import trio

from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.entries import decode_entry
from tidegate_coordination.metadata_log import LogMisconfigured, MetadataLog, Trimmed
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.object_store import ObjectStore, StoreUnavailable
from tidegate_storage.ownership import claim_prefix

_log = structlog.get_logger("tidegate.startup")

READ_BYTES = 8 << 20
RETRY_SECONDS = 1.0


class NodeIdInUse(Exception):
    """Another gateway answers to this node id.  The text says what to do."""


async def load_state(log: MetadataLog, *, deadline_seconds: float) -> ClusterState:
    """Return the state at the log's present end: the newest snapshot, and the entries behind it.

    Raises:
      LogUnavailable: not in time.
      LogMisconfigured: entries are missing.
    """
    with trio.fail_after(deadline_seconds):
        state = await _from_snapshot(log)
        while True:
            entries = await log.read(state.position + 1, READ_BYTES)
            if isinstance(entries, Trimmed):
                # Another gateway may have taken a newer snapshot meanwhile, and trimmed below it.
                newer = await _from_snapshot(log)
                if newer.position <= state.position:
                    raise LogMisconfigured(
                        f"the metadata log begins at {entries.first_position} and no snapshot"
                        f" reaches up to it (newest: {state.position}); restore it from a backup"
                    )
                state = newer
                continue
            if not entries:
                state.touched.clear()
                return state
            for each in entries:
                state.apply(each.position, decode_entry(each.payload, each.position))
            await trio.lowlevel.checkpoint()


async def _from_snapshot(log: MetadataLog) -> ClusterState:
    snapshot = await log.load_snapshot()
    return ClusterState() if snapshot is None else ClusterState.decode(b"".join(snapshot.chunks))


def check_cluster(state: ClusterState, wanted_id: str) -> None:
    """See that the log is that of the cluster this gateway was set up for; "" is any.

    Raises:
      LogMisconfigured: it is another's.  Nothing was written.
    """
    if wanted_id and state.cluster_id and wanted_id != state.cluster_id:
        raise LogMisconfigured(
            f"cluster.id={wanted_id}, but the metadata log is that of cluster {state.cluster_id}"
        )


async def register(coordinator: Coordinator, proposal: Register) -> int:
    """Begin this gateway's incarnation; waits out the lease of a dead one with the same node id.

    The lease is watched on this machine's clock: a dead gateway that was alone is ended by nobody
    else.

    Raises:
      NodeIdInUse: the other one lives.
    """
    gateways = coordinator.state.gateways
    watched: tuple[int, int] | None = None
    since = trio.current_time()
    with trio.move_on_after(2 * gateways.lease_ms / 1000):
        while True:
            lease_is_over = trio.current_time() - since > gateways.lease_ms / 1000
            silent = watched if lease_is_over else None
            answer = await coordinator.propose(replace(proposal, silent=silent))
            if isinstance(answer, int):
                coordinator.incarnation = answer
                return answer
            present = gateways.by_node_id(proposal.node_id)
            found = (present.incarnation, present.clock_ms) if present is not None else None
            if found != watched:
                watched, since = found, trio.current_time()
            _log.info("the node id is in use; waiting for its lease", node_id=proposal.node_id)
            await trio.sleep(RETRY_SECONDS)
    raise NodeIdInUse(
        f"node.id={proposal.node_id} belongs to another live gateway. Give this one another"
        " node.id, or stop the other; if this is a restart of it, give both the same instance.key"
    )


async def own_prefix(store: ObjectStore, state: ClusterState, *, version: str) -> None:
    """Check that the object store's prefix belongs to this cluster; claim a free one.

    Raises:
      StoreMisconfigured: it belongs to another.
    """
    while True:
        try:
            await claim_prefix(store, state.cluster_id, timeline=state.timeline, created_by=version)
        except StoreUnavailable as error:
            _log.warning("the object store does not answer", error=str(error))
            await trio.sleep(RETRY_SECONDS)
        else:
            return
