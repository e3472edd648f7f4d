"""`http://HOST:PORT/PREFIX` and `https://...`: a log behind a small REST contract.

So a log can be written in any language; `tidegate log serve` serves any other log this way. The
contract is in `coordination/http-log.openapi.json`, the bytes in `wire.py`. Parameters:

    ?token-file=FILE   the bearer token; http://:TOKEN@HOST works too, and is seen in process lists
    ?ca-file=FILE      certificates to trust, of https, instead of the system's
    ?key-file=FILE     this client's key and certificate in PEM, of https, if the server wants one
"""

import secrets
import ssl
from collections.abc import Iterator
from functools import partial
from itertools import count

import trio

from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.http.exchange import LogExchange
from tidegate_coordination.logs.http.log import HttpLog, Lanes, open_lanes
from tidegate_coordination.logs.http.url import HttpPlace, parse_url
from tidegate_runtime.http.client import Connect
from tidegate_runtime.http.tcp import tcp_connector


async def open_log(url: str) -> HttpLog:
    """Open the log.

    Raises:
        LogMisconfigured: the URL, its files or the token are wrong, or the server is no log.
        LogUnavailable: the server does not answer now.
    """
    place = await trio.to_thread.run_sync(parse_url, url)
    connect = tcp_connector(place.host, place.port, tls=place.tls)
    return await open_place(place, connect, names_from(secrets.token_hex(6)))


async def open_place(place: HttpPlace, connect: Connect, names: Iterator[str]) -> HttpLog:
    """Open the log that these connections lead to; raises as `open_log`."""
    exchange = partial(LogExchange, connect, place, names)
    lanes = Lanes(
        names,
        calls=exchange(max_connections=8),
        waits=exchange(max_connections=8),
        upkeep=exchange(max_connections=2),
    )
    try:
        return await open_lanes(lanes)
    except LogUnavailable as error:
        await lanes.aclose()
        _refuse_certificate(error, place)
        raise
    except BaseException:
        await lanes.aclose()
        raise


def names_from(prefix: str) -> Iterator[str]:
    """Names for requests; `prefix` is one that no other client has."""
    return (f"{prefix}-{number}" for number in count(1))


def _refuse_certificate(error: BaseException, place: HttpPlace) -> None:
    """Raise LogMisconfigured if an error stems from a certificate that is not trusted."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise LogMisconfigured(
                f"the certificate of {place.shown} is not trusted ({cause.verify_message}): give"
                " its authority as ?ca-file=FILE"
            ) from error
        cause = cause.__cause__
