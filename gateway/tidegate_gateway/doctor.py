"""`tidegate doctor`: whether this machine, store and log keep the promises a gateway builds on.

Nothing here changes what a running cluster holds: the store is tried below doctor/ and tidied up,
the log is only read.  Every check reports; one that fails does not stop the others.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import trio

from tidegate_coordination.entries import UnreadableEntry
from tidegate_coordination.load import open_log
from tidegate_coordination.metadata_log import (
    LogCorrupt,
    LogMisconfigured,
    LogUnavailable,
    MetadataLog,
)
from tidegate_coordination.metadata_versions import ReleaseTooOld
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.load import open_store
from tidegate_storage.object_store import ObjectStore, StoreMisconfigured, StoreUnavailable
from tidegate_storage.probe import probe_store

from .broker_settings import BrokerSettings, SettingsError
from .listener_settings import (
    ListenerAddress,
    advertised_endpoints,
    host_port,
    listen_addresses,
)
from .peer_listener import open_to_anyone, peer_address
from .server import CannotListen, open_listener
from .startup import load_state

STORE_SECONDS: Final = 120.0
LOG_SECONDS: Final = 60.0
# Far below the 10 s from which a gateway would no longer be allowed to expire anything.
MAX_CLOCK_SKEW_SECONDS: Final = 3.0
# The store's clock may be coarse, and the answer took its time.
CLOCK_SLACK_SECONDS: Final = 1.0


class Checked(NamedTuple):
    """One finding.  advice: what to do; "" when nothing is wrong."""

    area: str
    what: str
    ok: bool
    advice: str = ""


Report = Callable[[Checked], None]


async def examine(settings: BrokerSettings, data: Path | None, report: Report) -> bool:
    """Run all checks in order; True when all is well.

    Args:
      report: called with each finding as soon as it is known.
    """
    results: list[bool] = []

    def note(checked: Checked) -> None:
        results.append(checked.ok)
        report(checked)

    _check_listeners(settings, note)
    if data is not None:
        note(_data_folder(data))
    await _check_store(settings.text("object.store"), note)
    await _check_log(settings, note)
    return all(results)


# -- this machine ---------------------------------------------------------------------------------


def _check_listeners(settings: BrokerSettings, note: Report) -> None:
    try:
        addresses = list(listen_addresses(settings))
        advertised_endpoints(settings, addresses, "localhost")
        admin = settings.text("admin.listener")
        if admin:
            addresses.append(ListenerAddress("ADMIN", *host_port("admin.listener", admin)))
    except SettingsError as error:
        note(Checked("listeners", "can be read", False, str(error)))
        return
    for each in addresses:
        note(_port(each))
    _check_peers(settings, note)


def _check_peers(settings: BrokerSettings, note: Report) -> None:
    try:
        if (address := peer_address(settings)) is None:
            return
        danger = open_to_anyone(settings)
    except SettingsError as error:
        note(Checked("peer listener", "can be read", False, str(error)))
        return
    note(_port(address))
    what = "only gateways of this cluster are answered"
    note(Checked("peer listener", what, not danger, danger))


def _port(address: ListenerAddress) -> Checked:
    what = f"port {address.port} of {address.name} is free"
    try:
        open_listener(address).close()
    except CannotListen as error:
        advice = f"{error}; stop what listens there, or choose another port"
        return Checked("listeners", what, False, advice)
    return Checked("listeners", what, True)


def _data_folder(data: Path) -> Checked:
    what = f"{data} can be written"
    try:
        data.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=data) as file:
            file.write(b"tidegate")
    except OSError as error:
        advice = f"{error.strerror}; choose another with --data"
        return Checked("data folder", what, False, advice)
    return Checked("data folder", what, True)


# -- the object store -----------------------------------------------------------------------------


async def _check_store(url: str, note: Report) -> None:
    try:
        store = open_store(url)
    except StoreMisconfigured as error:
        note(Checked("object store", "opens", False, str(error)))
        return
    try:
        await examine_store(store, note)
    finally:
        with trio.CancelScope(shield=True):
            await store.aclose()


async def examine_store(store: ObjectStore, note: Report) -> None:
    """Try a store's promises, and compare its clock."""
    with trio.move_on_after(STORE_SECONDS) as waited:
        for finding in await probe_store(store):
            note(Checked("object store", finding.what, finding.ok, finding.advice))
        note(await _store_clock(store))
    if waited.cancelled_caught:
        note(Checked("object store", "answers in time", False, "see its logs and the network"))


async def _store_clock(store: ObjectStore) -> Checked:
    """Compare clocks: one that is wrong here would have its say in what expires."""
    what = "its clock agrees with this machine's"
    folder = f"doctor/clock-{secrets.token_hex(8)}/"
    try:
        before = time.time()
        await store.put(folder + "a", b"")
        after = time.time()
        found = await store.list(folder)
        await store.delete_many([folder + "a"])
    except (StoreUnavailable, StoreMisconfigured) as error:
        return Checked("clock", what, False, str(error))
    if not found:
        return Checked("clock", what, False, "the store does not list what was just stored")
    return _clock_finding(what, found[0].modified_at, before, after)


def _clock_finding(what: str, stamp: float, before: float, after: float) -> Checked:
    low, high = before - CLOCK_SLACK_SECONDS, after + CLOCK_SLACK_SECONDS
    skew = max(low - stamp, stamp - high, 0.0)
    if skew <= MAX_CLOCK_SKEW_SECONDS:
        return Checked("clock", what, True)
    advice = f"they differ by {skew:.0f} s; run a time service such as chrony on this machine"
    return Checked("clock", what, False, advice)


# -- the metadata log -----------------------------------------------------------------------------


async def _check_log(settings: BrokerSettings, note: Report) -> None:
    try:
        with trio.fail_after(LOG_SECONDS):
            log = await open_log(settings.text("metadata.log"))
    except (LogMisconfigured, LogUnavailable, trio.TooSlowError) as error:
        note(Checked("metadata log", "opens", False, str(error) or "it does not answer"))
        return
    try:
        note(Checked("metadata log", "opens", True))
        await _check_state(log, settings, note)
    finally:
        with trio.CancelScope(shield=True):
            await log.aclose()


_LOG_ERRORS: Final = (
    LogMisconfigured,
    LogUnavailable,
    LogCorrupt,
    StateBroken,
    UnreadableEntry,
    ReleaseTooOld,
)


async def _check_state(log: MetadataLog, settings: BrokerSettings, note: Report) -> None:
    what = "can be read to its end"
    started = time.monotonic()
    try:
        state = await load_state(log, deadline_seconds=LOG_SECONDS)
    except (*_LOG_ERRORS, trio.TooSlowError) as error:
        note(Checked("metadata log", what, False, str(error) or "not in time"))
        return
    seconds = time.monotonic() - started
    note(Checked("metadata log", f"{what} ({state.position} entries, {seconds:.1f} s)", True))
    for check in (_node_id, _cluster_id, _gateway_clocks):
        note(check(state, settings))


def _node_id(state: ClusterState, settings: BrokerSettings) -> Checked:
    node_id = settings.int("node.id")
    what = f"node.id {node_id} is not in use"
    taken = state.gateways.by_node_id(node_id)
    if taken is None:
        return Checked("metadata log", what, True)
    advice = (
        f"a gateway of zone {taken.zone!r} has it; fine if that one is to be restarted,"
        " otherwise choose another node.id"
    )
    return Checked("metadata log", what, True, advice)


def _cluster_id(state: ClusterState, settings: BrokerSettings) -> Checked:
    wanted = settings.text("cluster.id")
    found = state.cluster_id or "none yet"
    what = f"cluster is {found}"
    if not wanted or not state.cluster_id or wanted == state.cluster_id:
        return Checked("metadata log", what, True)
    return Checked("metadata log", what, False, f"cluster.id is set to {wanted}; one is wrong")


def _gateway_clocks(state: ClusterState, settings: BrokerSettings) -> Checked:
    """A live gateway's last entry lies at most a lease back, unless clocks differ."""
    what = f"clocks of {len(state.gateways.live)} gateways agree with this machine's"
    latest = max((each.clock_ms for each in state.gateways.live.values()), default=0) / 1000
    ahead = latest - time.time()
    if ahead <= MAX_CLOCK_SKEW_SECONDS:
        return Checked("clock", what, True)
    advice = f"one of them is {ahead:.0f} s ahead; run a time service such as chrony everywhere"
    return Checked("clock", what, False, advice)
