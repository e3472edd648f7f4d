"""The copies of one timeline's log in the object store: look, put, read, drop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import trio

from tidegate_storage.objects.keys import backup_prefix
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectInfo,
    ObjectStore,
    put_idempotent,
)

from ..log.inlined_bodies import first_needed_of
from ..log.metadata_log import LogEntry, Snapshot
from .copies import (
    VERSION,
    WHOLE,
    DamagedCopy,
    EntriesName,
    SnapshotName,
    WholeSnapshot,
    decode_entries,
    digest_of,
    encode_entries,
    entries_key,
    entries_prefix,
    join_chunks,
    parse_entries_key,
    parse_snapshot_key,
    part_key,
    snapshot_digest,
    snapshot_folder,
    snapshots_prefix,
    split_chunks,
)

PART_BYTES: Final = 8 << 20
DELETED_AT_ONCE: Final = 500


@dataclass(slots=True)
class Copies:
    """All copies.  copied_at: store's clock, seconds since 1970, of the newest."""

    snapshots: list[SnapshotName] = field(default_factory=list[SnapshotName])
    unfinished: list[SnapshotName] = field(default_factory=list[SnapshotName])
    entries: list[EntriesName] = field(default_factory=list[EntriesName])
    copied_at: float = 0.0

    @property
    def last(self) -> int:
        """Return the last position in any copy, even after a gap; 0 without copies."""
        ends = [each.position for each in self.snapshots]
        return max([*ends, *(each.last for each in self.entries)], default=0)


class Shelf:
    """The copies of one timeline's log, by their keys in the object store."""

    def __init__(self, store: ObjectStore, cluster_id: str, timeline: int) -> None:
        self._store = store
        self._prefix = backup_prefix(cluster_id, timeline)
        self.timeline = timeline

    async def look(self) -> Copies:
        """List everything.

        Raises:
          StoreUnavailable: try again later.
        """
        found = Copies()
        seen: set[SnapshotName] = set()
        async for info in listed(self._store, snapshots_prefix(self._prefix)):
            parsed = parse_snapshot_key(self._prefix, info.key)
            if parsed is not None:
                seen.add(parsed[0])
                if parsed[1]:
                    found.snapshots.append(parsed[0])
                found.copied_at = max(found.copied_at, info.modified_at)
        found.unfinished = sorted(seen.difference(found.snapshots))
        for name, modified_at in await self.new_entries(""):
            found.entries.append(name)
            found.copied_at = max(found.copied_at, modified_at)
        return found

    async def new_entries(self, after_key: str) -> list[tuple[EntriesName, float]]:
        """List entries after a key, with the time at which they were stored."""
        prefix = entries_prefix(self._prefix)
        parsed = [
            (parse_entries_key(self._prefix, info.key), info.modified_at)
            async for info in listed(self._store, prefix, after_key)
        ]
        return [(name, modified_at) for name, modified_at in parsed if name is not None]

    def key_of(self, name: EntriesName) -> str:
        """Return the key of entries."""
        return entries_key(self._prefix, name)

    async def put_entries(self, entries: Sequence[LogEntry]) -> tuple[EntriesName, int]:
        """Store a stretch of entries; return its name and size in bytes."""
        body = encode_entries(entries)
        name = EntriesName(entries[0].position, entries[-1].position, digest_of(body))
        await put_idempotent(self._store, entries_key(self._prefix, name), body)
        return name, len(body)

    async def put_snapshot(self, snapshot: Snapshot) -> tuple[SnapshotName, int]:
        """Store a snapshot; return its name and size in bytes."""
        parts: list[tuple[int, str]] = []
        for part in join_chunks(snapshot.chunks, PART_BYTES):
            parts.append((len(part), digest_of(part)))
            await trio.lowlevel.checkpoint()
        name = SnapshotName(snapshot.position, snapshot_digest(parts))
        folder = snapshot_folder(self._prefix, name)
        # The parts are joined a second time, so that memory holds one part beside the snapshot
        # itself.
        for number, part in enumerate(join_chunks(snapshot.chunks, PART_BYTES)):
            await put_idempotent(self._store, part_key(folder, number), part)
        needed = first_needed_of(snapshot) or 0
        whole = WholeSnapshot(VERSION, snapshot.position, tuple(parts), needed)
        await put_idempotent(self._store, folder + WHOLE, msgspec.json.encode(whole))
        return name, sum(size for size, _ in parts)

    async def first_needed(self, name: SnapshotName) -> int:
        """Return the position of the first copied entry that a whole snapshot needs.

        Of a snapshot that is gone or damaged that is the first one above it, too.

        Raises:
          StoreUnavailable: try again later.
        """
        try:
            raw = await self._store.get(snapshot_folder(self._prefix, name) + WHOLE)
            whole = msgspec.json.decode(raw, type=WholeSnapshot)
        except (NoSuchObject, msgspec.DecodeError):
            return name.position + 1
        return whole.first_needed or name.position + 1

    async def read_entries(self, name: EntriesName) -> list[LogEntry]:
        """Read entries back.

        Raises:
          DamagedCopy: the entries are damaged, or deleted.
          StoreUnavailable: try again later.
        """
        try:
            body = await self._get(entries_key(self._prefix, name), name.digest)
        except NoSuchObject:
            raise DamagedCopy(f"the copy of entries {name.first} to {name.last} is gone") from None
        return decode_entries(name, body)

    async def read_snapshot(self, name: SnapshotName) -> Snapshot:
        """Read a snapshot back.

        Raises:
          DamagedCopy: the snapshot is damaged, or deleted.
          StoreUnavailable: try again later.
        """
        what = f"the copy of the snapshot at {name.position}"
        folder = snapshot_folder(self._prefix, name)
        try:
            raw = await self._store.get(folder + WHOLE)
            whole = msgspec.json.decode(raw, type=WholeSnapshot)
            chunks = [
                chunk
                for number, (_, digest) in enumerate(whole.parts)
                for chunk in await self._read_part(part_key(folder, number), digest)
            ]
        except NoSuchObject as error:
            raise DamagedCopy(f"{what} lacks {error}") from None
        except msgspec.DecodeError as error:
            raise DamagedCopy(f"{what} cannot be read: {error}") from error
        if (whole.version, whole.position) != (VERSION, name.position):
            raise DamagedCopy(f"{what} is of format {whole.version}, at {whole.position}")
        return Snapshot(whole.position, chunks)

    async def _read_part(self, key: str, digest: str) -> list[bytes]:
        part = await self._get(key, digest)
        if digest_of(part) != digest:
            raise DamagedCopy(f"{key} fails its checksum")
        return list(split_chunks(part))

    async def _get(self, key: str, digest: str) -> bytes:
        """Get an object; if it is damaged, get it again, as damage can happen in transit."""
        body = await self._store.get(key)
        return body if digest_of(body) == digest else await self._store.get(key)

    async def drop(self, snapshots: Sequence[SnapshotName], entries: Sequence[EntriesName]) -> None:
        """Delete copies that newer ones made needless."""
        for name in snapshots:
            folder = snapshot_folder(self._prefix, name)
            # Delete whole.json first, which marks the snapshot as whole.
            await self._store.delete_many([folder + WHOLE])
            keys = [info.key async for info in listed(self._store, folder)]
            await self._store.delete_many(keys)
        for at in range(0, len(entries), DELETED_AT_ONCE):
            keys = [self.key_of(name) for name in entries[at : at + DELETED_AT_ONCE]]
            await self._store.delete_many(keys)


async def listed(
    store: ObjectStore, prefix: str, start_after: str = ""
) -> AsyncIterator[ObjectInfo]:
    """Yield the objects below a prefix."""
    while page := await store.list(prefix, start_after=start_after):
        for info in page:
            yield info
        start_after = page[-1].key
