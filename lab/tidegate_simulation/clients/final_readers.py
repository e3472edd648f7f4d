"""The final readers: after healing they read every acknowledged record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import trio

from .readers import Reader, list_one
from .workload import Key, Workload

_LATEST = -1


MakeReader: TypeAlias = Callable[[Workload, Key, Callable[[], None]], "FinalReader"]


async def read_to_the_end(
    workload: Workload, patience_seconds: float, kinds: Sequence[MakeReader] = ()
) -> bool:
    """Read all keys; return False if no reader made progress for the allowed time.

    kinds: the kinds of readers, each of which reads every key; () for FinalReader alone.
    Progress of any reader resets the time limit, because readers need longer after a longer run.
    """

    def has_come_on() -> None:
        patience.deadline = trio.current_time() + patience_seconds

    with trio.move_on_after(patience_seconds) as patience:
        async with trio.open_nursery() as readers:
            for make in kinds or (FinalReader,):
                for key in workload.keys:
                    readers.start_soon(make(workload, key, has_come_on).run)
    return not patience.cancelled_caught


class FinalReader(Reader):
    """Reads one key to its end, after healing.  has_come_on: called after each read that returned
    records.
    """

    def __init__(
        self, workload: Workload, key: Key, has_come_on: Callable[[], None], name: str = ""
    ) -> None:
        super().__init__(workload, name or f"final {key.number}")
        self._key = key
        self._has_come_on = has_come_on

    async def run(self) -> None:
        """Read to an end offset that the reader asks for first."""
        end = await self._end()
        self.assign({self._key: self.workload.first_offset})
        while (position := self.positions[self._key]) < end:
            await self.poll()
            if self.positions[self._key] > position:
                self._has_come_on()
            await trio.lowlevel.checkpoint()
        value: dict[str, Any] = {"key": self._key.number, "offset": end}
        if self.isolation_level:
            value["committed"] = True
        self.history.note(self.client.name, "ok", "drained", value)
        self.client.close()

    async def _end(self) -> int:
        while True:
            end = await list_one(self.client, self._key, _LATEST)
            if end is not None:
                return end
            await self.client.pause(1.0)
