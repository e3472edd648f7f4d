"""`forward:HOST:PORT,HOST:PORT?token-file=FILE`: the log as other gateways show it; with TLS if
`ca-file=FILE`, `key-file=FILE` or `tls=on` is among the parameters; see logs/http/opening.py.

This log is for a gateway that cannot, or may not, reach the metadata log itself.  Such a gateway
reads through the peer.listener of gateways that do, and sends them its proposals
(forwarding/forwarder.py).  That gateway never appends and can never lead.  One address is enough.
Of several addresses, the one that answered last is asked first.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NoReturn, TypeVar
from urllib.parse import parse_qsl, urlencode

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.logs.http import opening as http
from tidegate_coordination.logs.http.url import TLS_PARAMETERS

Result = TypeVar("Result")
Open = Callable[[], Awaitable[MetadataLog]]

_FORM = "write forward:HOST:PORT, or forward:HOST:PORT,HOST:PORT, as the others' peer.listener says"


async def open_log(url: str) -> "ForwardLog":
    """Open the log through the first gateway that answers.

    Raises:
        LogMisconfigured: the URL is wrong, or the server there is no gateway with a log.
        LogUnavailable: no gateway answers now.
    """
    addresses = addresses_of(url)
    if not all(addresses):
        raise LogMisconfigured(_FORM)
    openings = [_opening(each) for each in _urls(url, addresses)]
    return ForwardLog(openings, await _learned(openings))


def addresses_of(url: str) -> list[str]:
    """Return HOST:PORT of each gateway that is named; "" for a missing one."""
    places = url.removeprefix("forward:").partition("?")[0]
    return [each.strip().strip("/") for each in places.split(",")]


def _urls(url: str, addresses: Sequence[str]) -> list[str]:
    """Return the URL of each gateway's log."""
    parameters = _parameters(url)
    if any(name == "tls" and value != "on" for name, value in parameters):
        raise LogMisconfigured("write tls=on, or leave it out")
    query = urlencode([each for each in parameters if each[0] != "tls"])
    scheme = "https" if is_secured(url) else "http"
    return [f"{scheme}://{address}/?{query}" for address in addresses]


def is_secured(url: str) -> bool:
    """Return whether gateways are asked over TLS."""
    return any(name in ("tls", *TLS_PARAMETERS) for name, _ in _parameters(url))


def _parameters(url: str) -> list[tuple[str, str]]:
    return parse_qsl(url.partition("?")[2], keep_blank_values=True)


async def _learned(openings: Sequence[Open]) -> LogCapabilities:
    """Return the capabilities of the log, as the first gateway that answers states them."""
    failures: list[str] = []
    for each in openings:
        try:
            log = await each()
        except LogUnavailable as error:
            failures.append(str(error))
            continue
        await log.aclose()
        return log.capabilities
    raise _nobody(failures)


def _opening(url: str) -> Open:
    async def opened() -> MetadataLog:
        return await http.open_log(url)

    return opened


class ForwardLog:
    """openings: of the same log, through one gateway each.  told: the log's capabilities."""

    def __init__(self, openings: Sequence[Open], told: LogCapabilities) -> None:
        self._openings = list(openings)
        self._open: dict[int, MetadataLog] = {}
        self._first = 0
        self._capabilities = replace(told, forward_to_leader=True, can_append=False)

    @property
    def capabilities(self) -> LogCapabilities:
        return self._capabilities

    async def append(self, position: int, payload: bytes) -> AppendResult:
        _refuse()

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        return await self._ask(lambda log: log.read(from_position, max_bytes))

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await self._ask(lambda log: log.wait(after_position, timeout_seconds))

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        _refuse()

    async def load_snapshot(self) -> Snapshot | None:
        return await self._ask(lambda log: log.load_snapshot())

    async def trim(self, before_position: int) -> None:
        _refuse()

    async def aclose(self) -> None:
        opened, self._open = self._open, {}
        for each in opened.values():
            await each.aclose()

    async def _ask(self, call: Callable[[MetadataLog], Awaitable[Result]]) -> Result:
        """Make a read-only call of the first gateway that answers it.

        A gateway that refuses, such as one that itself reads through others, counts as one that
        does not answer: other gateways may answer again before the operator corrects metadata.log.
        """
        failures: list[str] = []
        for _ in self._openings:
            number = self._first
            try:
                return await call(await self._opened(number))
            except (LogUnavailable, LogMisconfigured) as error:
                failures.append(str(error))
                if self._first == number:
                    self._first = (number + 1) % len(self._openings)
        raise _nobody(failures)

    async def _opened(self, number: int) -> MetadataLog:
        if number not in self._open:
            log = await self._openings[number]()
            if number in self._open:
                await log.aclose()
            else:
                self._open[number] = log
        return self._open[number]


def _nobody(failures: Sequence[str]) -> LogUnavailable:
    return LogUnavailable(
        "no gateway shows the metadata log (those whose own log is forward: never do):"
        f" {'; '.join(failures)}"
    )


def _refuse() -> NoReturn:
    raise LogMisuse("a log that is read through other gateways is changed by them alone")
