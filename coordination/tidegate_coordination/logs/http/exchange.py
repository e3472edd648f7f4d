"""One call of the `http:` log: its request has a name and a checksum, and its answer is checked.

The check is pure. An answer of another server (a proxy) means a wrong address while the log is
being opened, and an outage once the log has answered.
"""

import json
from collections.abc import Iterator
from typing import Final, cast

from tidegate_coordination.log.metadata_log import (
    LogCorrupt,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
)
from tidegate_coordination.logs.http import wire as wire
from tidegate_coordination.logs.http.url import HttpPlace
from tidegate_runtime.http.client import Connect, HttpClient, HttpUnavailable
from tidegate_runtime.http.values import HttpAnswer

_FOR_THE_CALLER: Final = (200, 201, 204, 409, 410)
_AWAY: Final = (408, 425, 429, 500, 502, 503, 504)
_SHOWN_CHARS: Final = 300


class LogExchange:
    """Calls to one log over a few separate connections."""

    def __init__(
        self, connect: Connect, place: HttpPlace, names: Iterator[str], *, max_connections: int
    ) -> None:
        """`names` gives each request a name that no client of the log gives again."""
        self._client = HttpClient(connect, host=place.authority, max_connections=max_connections)
        self._place = place
        self._names = names

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        timeout_seconds: float,
        max_answer_bytes: int = 1 << 16,
        is_opening: bool = False,
    ) -> HttpAnswer:
        """Call what is at `path` below /v1/; returns answers of status 200, 201, 204, 409 and 410.

        Raises:
            LogUnavailable, LogMisconfigured, LogCorrupt, LogMisuse: as a metadata log does.
        """
        name, target = next(self._names), f"{self._place.prefix}{wire.ROOT}{path}"
        try:
            answer = await self._client.call(
                method,
                target,
                body=body,
                headers=self._headers(name, wire.request_crc(name, method, target, body)),
                timeout_seconds=timeout_seconds,
                max_answer_bytes=max_answer_bytes,
            )
        except HttpUnavailable as error:
            raise LogUnavailable(f"the HTTP log: {error}") from error
        return judged(answer, name, self._place.shown, is_opening=is_opening)

    def _headers(self, name: str, crc: str) -> tuple[tuple[str, str], ...]:
        token = self._place.token
        return (
            (wire.VERSION_HEADER, wire.VERSION),
            (wire.NAME_HEADER, name),
            (wire.CRC_HEADER, crc),
            *((("Authorization", f"Bearer {token.reveal()}"),) if token else ()),
        )

    async def aclose(self) -> None:
        await self._client.aclose()


def judged(answer: HttpAnswer, name: str, where: str, *, is_opening: bool) -> HttpAnswer:
    """Return an answer if it is the log's, undamaged, and of a status that the caller handles."""
    version = answer.header(wire.VERSION_HEADER)
    if version is None:
        raise _not_the_log(answer, where, is_opening=is_opening)
    if version != wire.VERSION:
        raise LogMisconfigured(
            f"{where} speaks version {version[:20]!r} of the HTTP log, and this release version"
            f" {wire.VERSION}: run releases of both that speak the same"
        )
    if answer.header(wire.NAME_HEADER) != name or answer.header(wire.CRC_HEADER) != wire.answer_crc(
        name, answer.status, answer.body
    ):
        raise LogUnavailable(f"the answer of {where} arrived damaged, or belongs to another call")
    if answer.status in _FOR_THE_CALLER:
        return answer
    raise _refusal(answer.status, text_of(answer), where)


def _refusal(status: int, text: str, where: str) -> Exception:
    match status:
        case 400 | 413:
            return LogMisuse(f"{where}: {text}")
        case 401:
            return LogMisconfigured(
                f"{where} refuses the token: give the one it was started with, as ?token-file=FILE"
            )
        case 403:
            return LogMisconfigured(f"{where} may only be read: give the URL of the log itself")
        case 404 | 405:
            return LogMisconfigured(f"{where} lacks a call of the contract: {text}")
        case 412:
            return LogCorrupt(f"{where}: {text}")
        case _:
            return LogUnavailable(f"{where} answers {status}: {text}")


def _not_the_log(answer: HttpAnswer, where: str, *, is_opening: bool) -> Exception:
    found = f"status {answer.status}, {answer.content_type or 'no type'}"
    if answer.status == 413:
        return LogMisconfigured(
            f"something before the log at {where} refuses large bodies ({found}): let it take"
            f" {wire.MAX_PART_BYTES} bytes (in nginx: client_max_body_size)"
        )
    if answer.status in _AWAY or not is_opening:
        return LogUnavailable(f"something answers for the log at {where} ({found})")
    if answer.status in (401, 403, 407):
        return LogMisconfigured(
            f"a server before the log at {where} refuses the request ({found}): see its settings"
        )
    if answer.status == 421:
        # A gateway that does not reach the log, or a server at another path.
        return LogMisconfigured(f"the server at {where} does not show the log: {text_of(answer)}")
    return LogMisconfigured(
        f"what answers at {where} is no metadata log ({found}): check host, port and path"
    )


def json_of(answer: HttpAnswer) -> dict[str, object]:
    """The object that an answer holds.

    Raises:
        LogCorrupt: it holds none.
    """
    try:
        value: object = json.loads(answer.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise LogCorrupt("the HTTP log answered what is no JSON object")
    return cast("dict[str, object]", value)


def whole(value: dict[str, object], name: str) -> int:
    """Return an integer in an answer.  Raises LogCorrupt if the value is something else."""
    found = value.get(name)
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise LogCorrupt(f"the HTTP log answered no number {name!r}")
    return found


def text_of(answer: HttpAnswer) -> str:
    """Return the text of a refusal, in one line."""
    return " ".join(answer.body.decode("utf-8", "replace").split())[:_SHOWN_CHARS]
