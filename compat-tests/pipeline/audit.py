"""Compares the objects in a store's folder with those that the metadata log names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import trio

from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_pipeline.commands.parts import load_state_in_use, open_log_in_use
from tidegate_pipeline.driver import CLAIM
from tidegate_storage.objects.keys import segment_prefix, wal_prefix


@dataclass(frozen=True, slots=True)
class Named:
    """Keys of objects that a state names.

    live: the objects with records that can be read.  all: the live objects, and dead ones that are
    not deleted yet.
    """

    live: frozenset[str]
    all: frozenset[str]


def load(data: Path) -> ClusterState:
    """Return the state at the end of the log in a gateway's data folder."""
    return trio.run(_load, f"sqlite:{data}/metadata.db")


async def _load(url: str) -> ClusterState:
    log = await open_log_in_use(url)
    try:
        return await load_state_in_use(log, url)
    finally:
        await log.aclose()


def named(state: ClusterState) -> Named:
    """Return the objects that a cluster state names."""
    objects = state.objects
    keys: dict[int, str] = {}
    for number in objects.numbers():
        name = objects.name_or_none(number)
        if name is not None:
            keys[number] = object_key(state, name)
    live = (key for number, key in keys.items() if number not in objects.dead)
    return Named(frozenset(live), frozenset(keys.values()))


class StoreFolder:
    """The records' objects of one cluster, as files."""

    def __init__(self, data: Path, state: ClusterState) -> None:
        self.path = data / "objects"
        self._wal = self.path / wal_prefix(state.cluster_id, state.timeline)
        self._segments = self.path / segment_prefix(state.cluster_id, state.timeline)

    def keys(self) -> set[str]:
        """Return the keys of all WAL objects and segments."""
        return {*self._keys(self._wal), *self.segments()}

    def segments(self) -> set[str]:
        """Return the keys of all segments."""
        return self._keys(self._segments)

    def newest_wal(self) -> Path | None:
        """Return the file of the newest WAL object."""
        files = [Path(folder, name) for folder, _, names in os.walk(self._wal) for name in names]
        return max(files, key=_age, default=None)

    def _keys(self, top: Path) -> set[str]:
        start = len(str(self.path)) + 1
        return {f"{folder}/{name}"[start:] for folder, _, names in os.walk(top) for name in names}


def _age(wal: Path) -> tuple[int, str]:
    """Return the incarnation and the counter in an object's name."""
    return int(wal.parent.name.rpartition("-")[2]), wal.name


def working_driver(state: ClusterState) -> int:
    """Return the incarnation that holds the pipeline's claim; 0 for none."""
    claim = state.claims.get(CLAIM)
    return claim.incarnation if claim is not None else 0
