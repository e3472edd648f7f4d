"""Runs tasks of an import in this process: for small machines, for simulation and tests."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate_storage.stores.object_store import ObjectStore

from .copying import run_import
from .readers import Origin
from .work import ImportTask, UnitDone


class LocalImportRunner:
    """See ImportRunner."""

    def __init__(self, store: ObjectStore, origin: Origin, *, at_once: int = 1) -> None:
        self._store = store
        self._origin = origin
        self._at_once = at_once

    async def slots(self) -> int:
        """See ImportRunner."""
        return self._at_once

    async def run(self, task: ImportTask) -> Sequence[UnitDone]:
        """See ImportRunner."""
        return await run_import(self._store, self._origin, task)
