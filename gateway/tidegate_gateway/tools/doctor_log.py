"""The checks of `tidegate doctor` on the metadata log, and on the gateways that are in the log."""

from __future__ import annotations

import time
from typing import Final

import trio

from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.events.entries import UnreadableEntry
from tidegate_coordination.events.metadata_versions import INLINED, ReleaseTooOld
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import (
    LogCorrupt,
    LogMisconfigured,
    LogUnavailable,
    MetadataLog,
)
from tidegate_coordination.rules.cluster_settings import ClusterSettings, Own
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_storage.stores.object_store import ObjectStore, StoreMisconfigured, StoreUnavailable

from ..settings.broker_settings import BrokerSettings
from ..upkeep.prefixes import see_prefix
from .doctor_security import scram_findings
from .findings import Checked, Report

LOG_SECONDS: Final = 60.0
PREFIX_SECONDS: Final = 60.0
# Far below 10 s: a gateway whose clock is off by more than 10 s proposes no expiry.
MAX_CLOCK_SKEW_SECONDS: Final = 3.0

_LOG_ERRORS: Final = (
    LogMisconfigured,
    LogUnavailable,
    LogCorrupt,
    StateBroken,
    UnreadableEntry,
    ReleaseTooOld,
)


async def check_log(
    settings: BrokerSettings, instance_key: str, store: ObjectStore | None, note: Report
) -> None:
    """Read the log to its end, and check whether this gateway may join its cluster.

    Args:
      instance_key: the key of this gateway; "" if it has none yet.
      store: None if the store cannot be used.
    """
    try:
        with trio.fail_after(LOG_SECONDS):
            log = await open_log(settings.secret("metadata.log").reveal())
    except (LogMisconfigured, LogUnavailable, trio.TooSlowError) as error:
        note(Checked("metadata log", "opens", False, str(error) or "it does not answer"))
        return
    try:
        note(Checked("metadata log", "opens", True))
        state = await _loaded(log, note)
        if state is not None:
            note(_small_writes(log, state, settings))
            note(check_node_id(state, settings.int("node.id"), instance_key))
            note(check_settings(state, settings))
            note(_cluster(state, settings.text("cluster.id")))
            for finding in scram_findings(state, settings):
                note(finding)
            note(_gateway_clocks(state))
            if store is not None:
                note(await _prefix(store, log, state, settings.int("node.id")))
    finally:
        with trio.CancelScope(shield=True):
            await log.aclose()


def _small_writes(log: MetadataLog, state: ClusterState, settings: BrokerSettings) -> Checked:
    """Tell whether small writes travel in the log, and else why they do not."""
    most_mib = log.capabilities.inline_bytes_per_second / (1 << 20)
    why_not = ""
    if not settings.int("wal.inline.max.bytes"):
        why_not = "wal.inline.max.bytes is 0"
    elif not most_mib:
        why_not = "this log takes none"
    elif state.metadata_version < INLINED:
        why_not = f"tidegate.metadata.version is below {INLINED}"
    if why_not:
        return Checked("metadata log", f"small writes wait for a PUT: {why_not}", True)
    what = f"takes small writes, {most_mib:g} MiB a second from all gateways together"
    return Checked("metadata log", what, True)


async def _loaded(log: MetadataLog, note: Report) -> ClusterState | None:
    what = "can be read to its end"
    started = time.monotonic()
    try:
        state = await load_state(log, deadline_seconds=LOG_SECONDS)
    except (*_LOG_ERRORS, trio.TooSlowError) as error:
        note(Checked("metadata log", what, False, str(error) or "not in time"))
        return None
    seconds = time.monotonic() - started
    note(Checked("metadata log", f"{what} ({state.position} entries, {seconds:.1f} s)", True))
    return state


def check_settings(state: ClusterState, settings: BrokerSettings) -> Checked:
    """Check that all gateways have the same values of the settings that are defaults of topics."""
    own = Own(settings.int("node.id"), settings.static)
    differing = ClusterSettings(state, own).disagreements
    what = "gateways were given the same settings of topics"
    if not differing:
        return Checked("metadata log", what, True)
    shown = "; ".join(
        f"{each.name}: {', '.join(f'{text} at {number}' for number, text in each.values.items())},"
        f" so {each.holds} holds"
        for each in differing
    )
    advice = f"{shown}. Give all gateways the same, or set it for all with kafka-configs.sh"
    return Checked("metadata log", what, False, advice)


def check_node_id(state: ClusterState, node_id: int, instance_key: str) -> Checked:
    """Check whether this gateway could register with its node id now."""
    taken = state.gateways.by_node_id(node_id)
    if taken is None:
        return Checked("metadata log", f"node.id {node_id} is not in use", True)
    silent_seconds = time.time() - taken.clock_ms / 1000
    why = _why_it_may_be_taken(taken, instance_key, silent_seconds, state.gateways.lease_ms / 1000)
    if why:
        what = f"node.id {node_id} can be used: a gateway of zone {taken.zone!r} has it, {why}"
        return Checked("metadata log", what, True)
    advice = (
        f"a gateway of zone {taken.zone!r} has it and wrote {max(silent_seconds, 0):.0f} s ago."
        " Give this one another node.id, or stop the other; if this is to be a restart of it,"
        " give both the same instance.key"
    )
    return Checked("metadata log", f"node.id {node_id} can be used", False, advice)


def _why_it_may_be_taken(
    taken: Gateway, instance_key: str, silent_seconds: float, lease_seconds: float
) -> str:
    """Return why `serve` could take the node id of a live gateway; "" if it could not.

    It can if that gateway is its own earlier incarnation, or if that gateway's lease has expired.
    """
    if taken.instance_key == instance_key:
        return "and is this one by its instance.key"
    if silent_seconds > lease_seconds:
        return f"but was silent for {silent_seconds:.0f} s"
    return ""


def _cluster(state: ClusterState, wanted: str) -> Checked:
    found = state.cluster_id or "none yet"
    what = f"cluster is {found}"
    if wanted and state.cluster_id and wanted != state.cluster_id:
        return Checked("metadata log", what, False, f"cluster.id is set to {wanted}; one is wrong")
    try:
        check_cluster(state, wanted)
    except LogMisconfigured as error:
        return Checked("metadata log", what, False, str(error))
    return Checked("metadata log", what, True)


def _gateway_clocks(state: ClusterState) -> Checked:
    """Check that the clock of no live gateway is ahead of this machine's."""
    what = f"clocks of {len(state.gateways.live)} gateways agree with this machine's"
    latest = max((each.clock_ms for each in state.gateways.live.values()), default=0) / 1000
    ahead = latest - time.time()
    if ahead <= MAX_CLOCK_SKEW_SECONDS:
        return Checked("clock", what, True)
    advice = f"one of them is {ahead:.0f} s ahead; run a time service such as chrony everywhere"
    return Checked("clock", what, False, advice)


async def _prefix(
    store: ObjectStore, log: MetadataLog, state: ClusterState, node_id: int
) -> Checked:
    """Check the prefix as serve does before it writes anything."""
    what = "its prefix is free, or belongs to the log's cluster"
    try:
        with trio.fail_after(PREFIX_SECONDS):
            await see_prefix(store, log, state, node_id, deadline_seconds=LOG_SECONDS)
    except (StoreMisconfigured, StoreUnavailable, *_LOG_ERRORS, trio.TooSlowError) as error:
        return Checked("object store", what, False, str(error) or "not in time")
    return Checked("object store", what, True)
