"""Snapshots in transit through a `LogService`: incomplete uploads, and downloads.

Both are held in bounded memory, and dropped if no client has requested them for a while.  If its
upload was dropped, a client saves again; if its download was dropped, it requests the newest again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

import trio

from tidegate_coordination.log.metadata_log import LogCorrupt, LogMisuse, MetadataLog, Snapshot
from tidegate_coordination.log.snapshot_work import computed
from tidegate_coordination.log.snapshots import frame_chunks, split_frames, unframe_chunks
from tidegate_coordination.logs.http import wire as wire
from tidegate_coordination.logs.http.service_calls import Query, json_answer, number, said
from tidegate_runtime.http.values import BINARY, HttpAnswer

_MAX_UPLOADS: Final = 4
_MAX_UPLOAD_BYTES: Final = 1 << 30
_MAX_LOADED: Final = 2
_KEPT_SECONDS: Final = 300.0


@dataclass(slots=True)
class _Upload:
    parts: dict[int, bytes] = field(default_factory=dict[int, bytes])
    used_at: float = 0.0

    @property
    def held_bytes(self) -> int:
        return sum(map(len, self.parts.values()))


@dataclass(slots=True)
class _Loaded:
    framed: bytes
    used_at: float


class _Held(Protocol):
    used_at: float


_Key = TypeVar("_Key")
_Value = TypeVar("_Value", bound=_Held)


class SnapshotDesk:
    """All public methods but forget_old() are `service_calls.Call`s.

    Long work on a whole snapshot runs in a thread, or `in_loop`.
    """

    def __init__(self, log: MetadataLog, *, in_loop: bool) -> None:
        self._log = log
        self._in_loop = in_loop
        self._uploads: dict[str, _Upload] = {}
        self._loaded: dict[tuple[int, str], _Loaded] = {}

    def forget_old(self) -> None:
        """Drop snapshots that no client requested lately. Called for each request of any kind."""
        _forget(self._uploads, _MAX_UPLOADS)
        _forget(self._loaded, _MAX_LOADED)

    async def put_part(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        """Keep a part of an upload; a repeated part replaces the first."""
        await trio.lowlevel.checkpoint()
        name, part = ids[0], number(ids[1], "part")
        if len(name) > wire.MAX_NAME_CHARS or len(body) > wire.MAX_PART_BYTES:
            raise LogMisuse(f"a part has up to {wire.MAX_PART_BYTES} bytes")
        upload = self._uploads.setdefault(name, _Upload())
        upload.parts[part] = body
        upload.used_at = trio.current_time()
        self.forget_old()
        if upload.held_bytes > _MAX_UPLOAD_BYTES:
            del self._uploads[name]
            return said(413, f"a snapshot has up to {_MAX_UPLOAD_BYTES} bytes here")
        return said(201, "kept until the snapshot is whole")

    async def save(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        """Save the snapshot whose parts were put, if they are all here."""
        position = number(ids[0], "position")
        upload = self._uploads.pop(query.get("upload", ""), _Upload())
        said_to_be = (query.get("bytes"), query.get("crc32c"))
        chunks = await computed(
            lambda: _chunks(upload.parts, said_to_be, position), in_loop=self._in_loop
        )
        if chunks is None:
            return said(409, "the parts that are here do not make up this snapshot: put all again")
        await self._log.save_snapshot(position, chunks)
        return said(201, "saved")

    async def newest(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        """Say which snapshot is the newest; its parts can be fetched for a while."""
        found = await self._log.load_snapshot()
        if found is None:
            return HttpAnswer(204)
        framed, crc = await computed(lambda: _framed(found), in_loop=self._in_loop)
        self._loaded[found.position, crc] = _Loaded(framed, trio.current_time())
        self.forget_old()
        return json_answer(200, {"position": found.position, "bytes": len(framed), "crc32c": crc})

    async def part(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        """Give some bytes of a snapshot that `newest` named."""
        await trio.lowlevel.checkpoint()
        loaded = self._loaded.get((number(ids[0], "position"), query.get("crc32c", "")))
        if loaded is None:
            return said(410, "this snapshot is not held here any more: ask for the newest again")
        loaded.used_at = trio.current_time()
        at = number(query.get("from"), "from")
        return HttpAnswer(200, loaded.framed[at : at + wire.MAX_PART_BYTES], BINARY)


def _forget(kept: dict[_Key, _Value], most: int) -> None:
    """Drop values that no client requested lately, and the oldest if there are too many."""
    since = trio.current_time() - _KEPT_SECONDS
    oldest_first = sorted(kept, key=lambda key: kept[key].used_at)
    for number_left, key in zip(range(len(oldest_first), 0, -1), oldest_first, strict=True):
        if number_left > most or kept[key].used_at < since:
            del kept[key]


def _framed(snapshot: Snapshot) -> tuple[bytes, str]:
    framed = b"".join(frame_chunks(snapshot.position, snapshot.chunks))
    return framed, wire.body_crc(framed)


def _chunks(
    parts: dict[int, bytes], said_to_be: tuple[str | None, str | None], position: int
) -> Sequence[bytes] | None:
    """Return the chunks of a snapshot; None if these parts do not make it up."""
    framed = b"".join(payload for _, payload in sorted(parts.items()))
    if not framed or said_to_be != (str(len(framed)), wire.body_crc(framed)):
        return None
    return _unframed(framed, position).chunks


def _unframed(framed: bytes, position: int) -> Snapshot:
    try:
        snapshot = unframe_chunks(split_frames(framed))
    except LogCorrupt as error:
        raise LogMisuse(f"what was put is no snapshot: {error}") from error
    if snapshot.position != position:
        raise LogMisuse(f"what was put is a snapshot of {snapshot.position}, not of {position}")
    return snapshot
