"""`tidegate doctor`: checks whether machine, store and log behave as a gateway needs.

The checks change no data of a running cluster.  In the store they write only below doctor/, and
delete these objects afterwards.  They only read the log.  Every check reports.  A failed check does
not stop the others; but if the store does not answer, its other checks are skipped.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Final

import trio

from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore, StoreMisconfigured, StoreUnavailable
from tidegate_storage.stores.probe import probe_store

from ..instance import read_key
from ..produce.write_pace import write_pace
from ..settings.broker_settings import BrokerSettings
from .doctor_log import MAX_CLOCK_SKEW_SECONDS, check_log
from .doctor_machine import check_machine
from .findings import Checked, Report

STORE_SECONDS: Final = 120.0
# The store's clock may be coarse.
CLOCK_SLACK_SECONDS: Final = 1.0


async def examine(settings: BrokerSettings, data: Path | None, report: Report) -> bool:
    """Run all checks in order; return whether all succeeded."""
    results: list[bool] = []

    def note(checked: Checked) -> None:
        results.append(checked.ok)
        report(checked)

    check_machine(settings, data, note)
    store = _opened_store(settings.secret("object.store").reveal(), note)
    try:
        answers = store is not None and await examine_store(store, note)
        if pace := write_pace(settings):
            note(Checked("object store", pace, True))
        key = settings.text("instance.key") or (read_key(data) if data is not None else "")
        await check_log(settings, key, store if answers else None, note)
    finally:
        if store is not None:
            with trio.CancelScope(shield=True):
                await store.aclose()
    return all(results)


def _opened_store(url: str, note: Report) -> ObjectStore | None:
    try:
        return open_store(url)
    except StoreMisconfigured as error:
        note(Checked("object store", "opens", False, str(error)))
        return None


async def examine_store(store: ObjectStore, note: Report) -> bool:
    """Check a store's promises and its clock.

    Returns False if the store does not answer in time, or refuses all objects.
    """
    with trio.move_on_after(STORE_SECONDS) as waited:
        for finding in await probe_store(store):
            if finding.is_last:
                advice = f"{finding.advice}; its other checks were left out"
                note(Checked("object store", finding.what, finding.ok, advice))
                return False
            note(Checked("object store", finding.what, finding.ok, finding.advice))
        note(await _store_clock(store))
    if waited.cancelled_caught:
        note(Checked("object store", "answers in time", False, "see its logs and the network"))
    return not waited.cancelled_caught


async def _store_clock(store: ObjectStore) -> Checked:
    """Compare this clock with the store's: a gateway with a wrong clock would affect expiry."""
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
