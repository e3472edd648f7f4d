"""`tidegate inspect`: shows the content of one object, and whether it is whole."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.existing import open_existing_store, open_followed_log
from tidegate_coordination.object_names.standing import Known, standing_of
from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.log_lines import configure_logs
from tidegate_runtime.settings_texts import BadSource
from tidegate_storage.objects.corrupt import UnknownVersion
from tidegate_storage.stores.object_store import NoSuchObject, ObjectStore

from ...refusals_to_start import sentence_of
from ...tools.inspection import READ_BYTES, ByteSource, NotOurs, look_at, scan
from ...tools.object_sources import (
    StoredObject,
    Windowed,
    inlined_object,
    local_file,
    stored_object,
)
from ..dev.pipeline import default_store
from ..options import DEV_DATA
from .text import JsonPrinter, Printer, TextPrinter

DAMAGED: Final = 1
NOT_TOLD: Final = 2
LOAD_SECONDS: Final = 120.0
_KEY_PARTS: Final = 6


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """The options as typed."""

    what: str
    object_store: str | None
    data: Path | None
    log: str | None
    records: bool


@dataclass(frozen=True, slots=True)
class _Opened:
    """key: the object's key in the store; for a file, the end of its path, which may be a key."""

    source: ByteSource
    key: str


def run_inspect(options: InspectOptions, *, as_json: bool) -> int:
    """Show the object; return the exit code."""
    configure_logs("error")
    printer: Printer = (JsonPrinter if as_json else TextPrinter)(shows_batches=options.records)
    try:
        return DAMAGED if trio.run(_inspect, options, printer) else 0
    except NoSuchObject as error:
        sentence: str | None = f"not found: {error}"
    except (NotOurs, UnknownVersion) as error:
        sentence = f"{options.what}: {error}"
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
    print(f"tidegate: {sentence}", file=sys.stderr)
    return NOT_TOLD


async def _inspect(options: InspectOptions, printer: Printer) -> int:
    """Show the object; return the number of problems."""
    state = await _state(options.log) if options.log is not None else None
    async with _opened(options, state) as opened:
        frame = await look_at(opened.source)
        known = _known(state, opened.key) if state is not None else None
        printer.frame(options.what, frame, state, known)
        problems = len(frame.problems)
        source = Windowed(opened.source, READ_BYTES)
        for stretch in frame.stretches:
            printer.stretch(stretch)
            found = await scan(source, stretch, printer.batch)
            printer.scanned(found)
            problems += len(found.problems)
        printer.end(problems)
    return problems


async def _state(url: str) -> ClusterState:
    log = await open_followed_log(url)
    try:
        state = await load_state(log, deadline_seconds=LOAD_SECONDS)
    finally:
        await log.aclose()
    check_cluster(state, "")
    return state


def _known(state: ClusterState, key: str) -> Known:
    known = standing_of(state, key)
    if known is None:
        raise BadSource(
            "--log needs the key of an object, and this is not one; a copy must lie in folders"
            " named as in the store"
        )
    return known


@asynccontextmanager
async def _opened(
    options: InspectOptions, state: ClusterState | None
) -> AsyncGenerator[_Opened, None]:
    """Open a file if it exists and no store is named; otherwise an object of the log, or the store.

    state: of the log, if it was named.
    """
    is_in_store = options.object_store is not None or options.data is not None
    if not is_in_store and (file := local_file(Path(options.what))) is not None:
        yield _Opened(file, _key_of(file.path))
        return
    held = inlined_object(state, options.what) if state is not None else None
    if held is not None:
        yield _Opened(held, options.what)
        return
    store = _store(options)
    try:
        yield _Opened(await _stored(store, options.what), options.what)
    finally:
        await store.aclose()


async def _stored(store: ObjectStore, key: str) -> StoredObject:
    try:
        return await stored_object(store, key)
    except ValueError as error:
        raise BadSource(str(error)) from error


def _store(options: InspectOptions) -> ObjectStore:
    data = options.data or DEV_DATA
    if options.object_store is None and options.data is None and not data.is_dir():
        raise NoSuchObject(
            f"there is no file {options.what}; for an object of a store, name the store with"
            " --object-store or --data"
        )
    return open_existing_store(options.object_store or default_store(data))


def _key_of(path: Path) -> str:
    return "/".join(path.absolute().parts[-_KEY_PARTS:])
