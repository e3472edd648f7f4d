"""Checks of objects whose bytes travel in the metadata log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tidegate_coordination.events.entries import Entry
from tidegate_coordination.events.inlined import BatchesInlined, InlineMoved, MovedStretch
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import ObjectName, WalName

from ..plans.inline_plan import COMMITTED, MOVED

_BodyOf: TypeAlias = Callable[[str], bytes | None]


class InlineWatch:
    """Knows the bytes that are in the log, and checks that moved runs have the same.

    Args:
      stored: returns the stored object of a key, without waiting.
      complain: called with the kind and the text of a violation.
      count: called with each kind of event.
    """

    def __init__(
        self,
        state: ClusterState,
        stored: _BodyOf,
        complain: Callable[[str, str], None],
        count: Callable[[str], None],
    ) -> None:
        self._state = state
        self._stored = stored
        self._complain = complain
        self._count = count
        self._bodies: Final[dict[str, bytes]] = {}

    def body_of(self, key: str) -> bytes | None:
        """Return the bytes of an object, from the log or from the store."""
        return self._bodies.get(key) or self._stored(key)

    def before(self, entry: Entry) -> None:
        """Keep the bodies of an entry; check what it moves."""
        for event in entry.events:
            if isinstance(event, BatchesInlined):
                self._count(COMMITTED)
                name = WalName(event.incarnation, event.counter)
                self._bodies[self._key(name)] = event.body
            elif isinstance(event, InlineMoved):
                self._count(MOVED)
                self._check_move(event)

    def _check_move(self, event: InlineMoved) -> None:
        name = WalName(event.incarnation, event.counter)
        body = self._stored(self._key(name))
        if body is None:
            self._complain("not stored", f"{name} took over batches before it was stored")
            return
        for each in event.stretches:
            moved = b"".join(body[run.position : run.position + run.length] for run in each.runs)
            if moved != self._held(each):
                text = f"partition {each.partition}: {each.base_offset} to {each.next_offset}"
                self._complain("moved batches differ", f"{name}, {text}")

    def _held(self, stretch: MovedStretch) -> bytes:
        partition = self._state.partitions[stretch.partition]
        rows = partition.runs_between(stretch.base_offset, stretch.next_offset)
        bodies = [
            self.body_of(self._key(self._state.objects.name(row.object_number))) for row in rows
        ]
        return b"".join(
            (body or b"")[row.position : row.position + row.length]
            for row, body in zip(rows, bodies, strict=True)
        )

    def _key(self, name: ObjectName) -> str:
        return object_key(self._state, name)
