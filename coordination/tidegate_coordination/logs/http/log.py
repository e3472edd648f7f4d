"""The log at an `http:` URL: each call is one request, and no request is repeated here.

Waits and the upkeep of snapshots have separate connections, so that neither delays an append. A
snapshot is sent as its frames, one after the other, cut into parts. The server stores a snapshot
only when the last call names its length and checksum, so an incomplete upload is never loaded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogUnavailable,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.log.snapshots import frame_chunks, split_frames, unframe_chunks
from tidegate_coordination.logs.http import wire as wire
from tidegate_coordination.logs.http.exchange import LogExchange, json_of, whole
from tidegate_runtime.http.values import HttpAnswer

_CALL_SECONDS: Final = 10.0
_UPKEEP_SECONDS: Final = 120.0
_GRACE_SECONDS: Final = 5.0
_LOAD_ATTEMPTS: Final = 3
_MAX_ENTRY_BYTES: Final = 64 << 20
_INLINED: Final = "inline_bytes_per_second"
_APPENDED: Final = {
    201: AppendResult.APPENDED,
    409: AppendResult.CONFLICT,
    410: AppendResult.TRIMMED,
}


@dataclass(frozen=True, slots=True)
class Lanes:
    """Connections to one log, by their use, and request names that are used once."""

    names: Iterator[str]
    calls: LogExchange
    waits: LogExchange
    upkeep: LogExchange

    async def aclose(self) -> None:
        for lane in (self.calls, self.waits, self.upkeep):
            await lane.aclose()


async def open_lanes(lanes: Lanes) -> "HttpLog":
    """Ask the log for its capabilities.

    Raises:
        LogMisconfigured: the server is no log, or refuses the token.
        LogUnavailable: the server does not answer now.
    """
    answer = await lanes.calls.call("GET", "log", timeout_seconds=_CALL_SECONDS, is_opening=True)
    said = json_of(answer)
    seconds, forward = said.get("typical_append_seconds"), said.get("forward_to_leader")
    max_entry_bytes = whole(said, "max_entry_bytes")
    if not isinstance(seconds, int | float) or not isinstance(forward, bool):
        raise LogMisconfigured("the HTTP log does not say its capabilities: see its contract")
    if not 0 < max_entry_bytes <= _MAX_ENTRY_BYTES:
        raise LogMisconfigured(f"the HTTP log says max_entry_bytes={max_entry_bytes}")
    # A server may leave it out.
    inlined = whole(said, _INLINED) if _INLINED in said else 0
    has = LogCapabilities(forward, float(seconds), max_entry_bytes, inline_bytes_per_second=inlined)
    return HttpLog(lanes, has)


class HttpLog:
    """A connected log; `opening.open_log` makes one."""

    def __init__(self, lanes: Lanes, capabilities: LogCapabilities) -> None:
        self._lanes = lanes
        self._capabilities = capabilities

    @property
    def capabilities(self) -> LogCapabilities:
        return self._capabilities

    async def append(self, position: int, payload: bytes) -> AppendResult:
        self._capabilities.check_append(position, payload)
        answer = await self._lanes.calls.call(
            "PUT", f"entries/{position}", body=bytes(payload), timeout_seconds=_CALL_SECONDS
        )
        result = _APPENDED.get(answer.status)
        if result is None:
            raise LogUnavailable(f"the HTTP log answered an append with {answer.status}")
        return result

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        wanted_bytes = max(0, min(max_bytes, wire.MAX_READ_BYTES))
        largest = max(wanted_bytes, self._capabilities.max_entry_bytes)
        answer = await self._lanes.calls.call(
            "GET",
            f"entries?from={max(0, from_position)}&max_bytes={wanted_bytes}",
            timeout_seconds=_CALL_SECONDS,
            max_answer_bytes=largest + wire.MAX_FRAMING_BYTES,
        )
        if answer.status == 410:
            return self._trimmed(whole(json_of(answer), "first_position"), from_position)
        _expect(answer, 200)
        return wire.unframe_entries(answer.body, from_position)

    def _trimmed(self, first_position: int, from_position: int) -> Trimmed:
        if first_position <= from_position:
            raise LogCorrupt(f"the log says that {from_position} is gone, and that it is there")
        return Trimmed(first_position)

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        seconds = max(0.0, min(timeout_seconds, wire.MAX_WAIT_SECONDS))
        await self._lanes.waits.call(
            "GET",
            f"wait?after={max(0, after_position)}&timeout_ms={int(seconds * 1000)}",
            timeout_seconds=seconds + _GRACE_SECONDS,
        )

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        framed, crc = await trio.to_thread.run_sync(_framed, position, chunks)
        upload = next(self._lanes.names)
        for part, at in enumerate(range(0, len(framed), wire.MAX_PART_BYTES)):
            body = framed[at : at + wire.MAX_PART_BYTES]
            _expect(await self._upkeep("PUT", f"uploads/{upload}/{part}", body), 201)
        whole_one = f"upload={upload}&bytes={len(framed)}&crc32c={crc}"
        saved = await self._upkeep("PUT", f"snapshots/{position}?{whole_one}")
        if saved.status == 409:
            raise LogUnavailable("the HTTP log has not all parts of the snapshot: save it again")
        _expect(saved, 201)

    async def load_snapshot(self) -> Snapshot | None:
        for _ in range(_LOAD_ATTEMPTS):
            newest = await self._upkeep("GET", "snapshots/newest")
            if newest.status == 204:
                return None
            _expect(newest, 200)
            said = json_of(newest)
            position, crc = whole(said, "position"), str(said.get("crc32c"))
            framed = await self._load(f"snapshots/{position}?crc32c={crc}", whole(said, "bytes"))
            if framed is not None:
                return await trio.to_thread.run_sync(_snapshot, framed, position, crc)
        raise LogUnavailable("the newest snapshot changed again and again while it was loaded")

    async def _load(self, path: str, total_bytes: int) -> bytes | None:
        """Return the frames of a snapshot; None if a newer one has replaced it meanwhile."""
        framed = bytearray()
        while len(framed) < total_bytes:
            part = await self._upkeep("GET", f"{path}&from={len(framed)}")
            if part.status == 410:
                return None
            _expect(part, 200)
            if not part.body:
                raise LogCorrupt(f"a snapshot ends after {len(framed)} of {total_bytes} bytes")
            framed += part.body
        return bytes(framed)

    async def trim(self, before_position: int) -> None:
        _expect(await self._upkeep("POST", f"trim?before={max(0, before_position)}"), 204)

    async def _upkeep(self, method: str, path: str, body: bytes = b"") -> HttpAnswer:
        return await self._lanes.upkeep.call(
            method,
            path,
            body=body,
            timeout_seconds=_UPKEEP_SECONDS,
            max_answer_bytes=wire.MAX_PART_BYTES,
        )

    async def aclose(self) -> None:
        await self._lanes.aclose()


def _framed(position: int, chunks: Sequence[bytes]) -> tuple[bytes, str]:
    framed = b"".join(frame_chunks(position, chunks))
    return framed, wire.body_crc(framed)


def _snapshot(framed: bytes, position: int, crc: str) -> Snapshot:
    if wire.body_crc(framed) != crc:
        raise LogCorrupt(f"the snapshot at {position} fails its checksum")
    snapshot = unframe_chunks(split_frames(framed))
    if snapshot.position != position:
        raise LogCorrupt(f"the snapshot at {position} says it is at {snapshot.position}")
    return snapshot


def _expect(answer: HttpAnswer, status: int) -> None:
    if answer.status != status:
        raise LogUnavailable(f"the HTTP log answered {answer.status} where {status} belongs")
