"""A log whose entries hold the bodies of small WAL objects; they are moved by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.rules.test_wal_rules import TOPIC
from tidegate_coordination.events import inlined as iev
from tidegate_coordination.events.cluster import (
    Endpoint,
    Event,
    GatewayRegistered,
    MetadataVersionSet,
    Run,
    TopicCreated,
    WalCommitted,
)
from tidegate_coordination.events.entries import decode_entry, encode_entry, encode_events
from tidegate_coordination.events.metadata_versions import INLINED
from tidegate_coordination.log.metadata_log import AppendResult
from tidegate_coordination.log.snapshots import encode_state, save_verified
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState


@dataclass
class InlinedWorld:
    """A log of one gateway, and the state up to its end."""

    log: MemoryLog = field(default_factory=MemoryLog)
    state: ClusterState = field(default_factory=ClusterState)
    counter: int = 0
    end: int = 0
    """The offset after all records."""

    async def begin(self) -> None:
        """Register the gateway; make a topic."""
        endpoints = (Endpoint("PLAINTEXT", "h", 1),)
        await self.append(
            GatewayRegistered(1, 1, "key", "az1", endpoints, "0", 0),
            MetadataVersionSet(INLINED),
            writer=0,
        )
        await self.append(TopicCreated(TOPIC, "t", 1, 1, {}))

    async def append(self, *events: Event, writer: int = 1) -> int:
        """Append an entry, and fold it; return its position."""
        position = self.state.position + 1
        nonce = position.to_bytes(8)
        payload = encode_entry(
            nonce,
            writer,
            position * 1000,
            encode_events(events),
            entry_format=self.state.entry_formats[0],
            position=position,
        )
        assert await self.log.append(position, payload) is AppendResult.APPENDED
        self.state.apply(position, decode_entry(payload, position))
        return position

    def inline(self, body: bytes) -> tuple[Event, Event]:
        """Return the events of an inlined object of one record."""
        self.counter += 1
        run = Run(self._partition, 0, len(body), self.end, 1, 5, 1, 0)
        self.end += 1
        return (
            WalCommitted(1, self.counter, len(body), (run,), ()),
            iev.BatchesInlined(1, self.counter, body),
        )

    def move(self) -> Event:
        """Return the event that moves all batches to a stored object."""
        self.counter += 1
        run = Run(self._partition, 0, 50, 0, self.end, 5, 1, 0)
        stretch = iev.MovedStretch(self._partition, 0, self.end, (run,))
        return iev.InlineMoved(1, self.counter, 60, (stretch,))

    @property
    def _partition(self) -> int:
        [number] = self.state.topics.by_name["t"].partition_numbers
        return number

    async def save_snapshot(self) -> None:
        """Save the present state."""
        await save_verified(self.log, *await encode_state(self.state))
