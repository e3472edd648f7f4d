"""The `http:` log's other end: serves any metadata log over HTTP, call by call.

`http-log.openapi.json` describes the calls, `wire.py` the bytes.  The log's safety does not rest on
this module: if messages are lost, the compare-and-set of the served log decides.
"""

from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl

import structlog
import trio

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.logs.http import wire as wire
from tidegate_coordination.logs.http.service_calls import Call, Query, json_answer, number, said
from tidegate_coordination.logs.http.service_snapshots import SnapshotDesk
from tidegate_runtime.http.values import BINARY, HttpAnswer, HttpRequest, Standing
from tidegate_runtime.line_rates import STRANGERS_LINES
from tidegate_runtime.secret import Secret

_log = structlog.get_logger("tidegate.log_service", STRANGERS_LINES)

_CALL_SECONDS: Final = 110.0  # the longest call saves a large snapshot
_APPEND_STATUS: Final = {
    AppendResult.APPENDED: 201,
    AppendResult.CONFLICT: 409,
    AppendResult.TRIMMED: 410,
}


class LogService:
    """Serves one log; `handle` is for `http.server.serve_http`."""

    def __init__(
        self,
        log: MetadataLog,
        *,
        token: Secret | None,
        read_only: bool = False,
        prefix: str = "",
        in_loop: bool = False,
    ) -> None:
        """
        Args:
            token: the bearer token of clients; None admits every client.
            read_only: calls that would change the log are refused with 403.
            prefix: the part of all paths before /v1/; "" or /SOMETHING.
            in_loop: use no threads, as under simulation.
        """
        self._log = log
        self._token = token
        self._read_only = read_only
        self._root = prefix + wire.ROOT
        self._desk = SnapshotDesk(log, in_loop=in_loop)
        self._calls: dict[tuple[str, str], Call] = {
            ("GET", "log"): self._describe,
            ("PUT", "entries/*"): self._append,
            ("GET", "entries"): self._read,
            ("GET", "wait"): self._wait,
            ("PUT", "uploads/*/*"): self._desk.put_part,
            ("PUT", "snapshots/*"): self._desk.save,
            ("GET", "snapshots/newest"): self._desk.newest,
            ("GET", "snapshots/*"): self._desk.part,
            ("POST", "trim"): self._trim,
        }

    @property
    def max_body_bytes(self) -> int:
        """The largest body that a request may have."""
        return max(self._log.capabilities.max_entry_bytes, wire.MAX_PART_BYTES)

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Method and path below /v1/ of every call; * stands for a part that a client chooses."""
        return list(self._calls)

    def standing_of(self, head: HttpRequest) -> Standing:
        """Return a client's standing: if the service has a token, the request must carry it."""
        if self._token is None:
            return Standing.GUEST
        return Standing.KNOWN if _bears(head, self._token) else Standing.STRANGER

    async def handle(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request; if the log fails, with a status that says how to proceed."""
        self._desk.forget_old()
        return _signed(await self._handled(request), request)

    async def _handled(self, request: HttpRequest) -> HttpAnswer:
        if self.standing_of(request) is Standing.STRANGER:
            return said(401, "this log asks for a token: send Authorization: Bearer TOKEN")
        refusal = _unreadable(request) or self._forbidden(request)
        if refusal is not None:
            return refusal
        path, _, query = request.target.partition("?")
        if not path.startswith(self._root):
            return said(404, f"the calls of this log are below {self._root}")
        ids = path.removeprefix(self._root).split("/")
        call, status = self._found(request.method, ids)
        if call is None:
            return said(status, f"version {wire.VERSION} has no {request.method} of this path")
        return await _answered(call, ids[1:], dict(parse_qsl(query)), request.body)

    def _forbidden(self, request: HttpRequest) -> HttpAnswer | None:
        if self._read_only and request.method != "GET":
            return said(403, "this log may only be read here")
        return None

    def _found(self, method: str, ids: list[str]) -> tuple[Call | None, int]:
        """Return the call of a path; or None and the status of the error."""
        patterns = ("/".join(ids), "/".join([ids[0], *("*" for _ in ids[1:])]))
        for pattern in patterns:
            if call := self._calls.get((method, pattern)):
                return call, 200
        known = {pattern for _, pattern in self._calls}
        return None, 405 if known.intersection(patterns) else 404

    async def _describe(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        has = self._log.capabilities
        return json_answer(
            200,
            {
                "version": int(wire.VERSION),
                "max_entry_bytes": has.max_entry_bytes,
                "typical_append_seconds": has.typical_append_seconds,
                "forward_to_leader": has.forward_to_leader,
                "inline_bytes_per_second": has.inline_bytes_per_second,
                "read_only": self._read_only,
            },
        )

    async def _append(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        position, limit = number(ids[0], "position"), self._log.capabilities.max_entry_bytes
        if len(body) > limit:
            return said(413, f"an entry of {len(body)} bytes is over the limit of {limit}")
        result = await self._log.append(position, body)
        return said(_APPEND_STATUS[result], result.value)

    async def _read(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        wanted_bytes = min(number(query.get("max_bytes"), "max_bytes"), wire.MAX_READ_BYTES)
        entries = await self._log.read(number(query.get("from"), "from"), wanted_bytes)
        if isinstance(entries, Trimmed):
            return json_answer(410, {"first_position": entries.first_position})
        framed = wire.frame_entries(entries[: wire.MAX_READ_ENTRIES])
        return HttpAnswer(200, framed, BINARY)

    async def _wait(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        seconds = number(query.get("timeout_ms"), "timeout_ms") / 1000
        after = number(query.get("after"), "after")
        await self._log.wait(after, min(seconds, wire.MAX_WAIT_SECONDS))
        return HttpAnswer(204)

    async def _trim(self, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
        await self._log.trim(number(query.get("before"), "before"))
        return HttpAnswer(204)


def _bears(request: HttpRequest, token: Secret) -> bool:
    borne = request.header("Authorization") or ""
    scheme, _, given = borne.partition(" ")
    return token.matches(given) and scheme == "Bearer"


def _unreadable(request: HttpRequest) -> HttpAnswer | None:
    """Say why a request cannot be served as it arrived. Only a GET may lack Tidegate's headers."""
    version = request.header(wire.VERSION_HEADER)
    if version is None and request.method == "GET":
        return None
    if version != wire.VERSION:
        return said(400, f"send {wire.VERSION_HEADER}: {wire.VERSION}")
    name = request.header(wire.NAME_HEADER) or ""
    crc = wire.request_crc(name, request.method, request.target, request.body)
    if request.header(wire.CRC_HEADER) != crc:
        return said(422, f"the request arrived damaged: its {wire.CRC_HEADER} is not {crc}")
    return None


async def _answered(call: Call, ids: list[str], query: Query, body: bytes) -> HttpAnswer:
    try:
        with trio.move_on_after(_CALL_SECONDS):
            return await call(ids, query, body)
        return said(503, "the log took too long; the outcome is unknown")
    except LogMisuse as error:
        return said(400, str(error))
    except LogUnavailable as error:
        return said(503, str(error))
    except LogCorrupt as error:
        _log.error("a client is behind or ahead of this log, or it is damaged", error=str(error))
        return said(412, str(error))
    except LogMisconfigured as error:
        # The server's settings are wrong, not the client's, so the client waits until they are
        # corrected.
        _log.error("the log cannot be used", error=str(error))
        return said(503, str(error))


def _signed(answer: HttpAnswer, request: HttpRequest) -> HttpAnswer:
    name = (request.header(wire.NAME_HEADER) or "")[: wire.MAX_NAME_CHARS]
    name = name if name.isascii() else ""  # a header cannot repeat other names
    signature = (
        (wire.VERSION_HEADER, wire.VERSION),
        (wire.NAME_HEADER, name),
        (wire.CRC_HEADER, wire.answer_crc(name, answer.status, answer.body)),
    )
    return replace(answer, headers=(*answer.headers, *signature))
