"""TLS of HTTP connections: between gateways, for operators, and of a served log."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

import structlog
import trio

from tidegate_runtime.http.client import Connect
from tidegate_runtime.line_rates import STRANGERS_LINES
from tidegate_runtime.tls.contexts import tls_reason

from .server_context import is_allowed_suite
from .tls_listener import TlsListener

_log = structlog.get_logger("tidegate.tls", STRANGERS_LINES)

HANDSHAKE_SECONDS: Final = 10.0
Dial = Callable[[str, int], Connect]
Secured = trio.SSLStream[trio.SocketStream]


async def secured(stream: trio.SocketStream, tls: TlsListener) -> Secured | None:
    """Negotiate with a client; if that fails close the connection, log why and return None."""
    found = trio.SSLStream(stream, tls.current.context, server_side=True, https_compatible=True)
    try:
        with trio.fail_after(HANDSHAKE_SECONDS):
            await found.do_handshake()
        if is_allowed_suite(found.cipher()[0], tls.settings.suites):
            return found
        reason = "its cipher suite is none of ssl.cipher.suites"
    except trio.TooSlowError:
        reason = f"no TLS handshake within {HANDSHAKE_SECONDS:g} s"
    except trio.BrokenResourceError as error:
        cause = error.__cause__
        # else the client has left
        reason = tls_reason(cause) if isinstance(cause, ssl.SSLError) else ""
    except trio.ClosedResourceError:
        reason = ""  # closed to make room for newer connections
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    if reason:
        tls.failed_handshakes += 1
        _log.warning("closed a connection", peer=_peer(stream), listener=tls.name, reason=reason)
    await trio.aclose_forcefully(stream)
    return None


def _peer(stream: trio.SocketStream) -> str:
    try:
        host, port, *_ = stream.socket.getpeername()
    except OSError:
        return "gone"
    return f"{host}:{port}"


def has_certificate(stream: Secured) -> bool:
    """Return whether the client showed a certificate; the handshake has then verified it."""
    return bool(stream.getpeercert(binary_form=True))


def dialled_by_tls(dial: Dial, tls: TlsListener) -> Dial:
    """Return a dial that opens connections with TLS; it raises OSError and
    trio.BrokenResourceError.
    """

    def secure_dial(host: str, port: int) -> Connect:
        return lambda: _dialled(dial(host, port), host, tls)

    return secure_dial


async def _dialled(connect: Connect, host: str, tls: TlsListener) -> trio.abc.Stream:
    context = tls.current.dialling
    assert context is not None, "this listener dials"
    stream = await connect()
    found = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        await found.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(stream)
        cause = error.__cause__
        if isinstance(cause, ssl.SSLError):
            raise OSError(f"TLS: {tls_reason(cause)}") from error
        raise
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return found
