"""Opens streams to brokers: TCP, and TLS on it.

`Dial` is passed in, so that tests and the simulator give streams in memory.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from tidegate_runtime.name_lookups import NameLookups
from tidegate_runtime.tls.contexts import tls_reason

from ..errors import AuthenticationFailed, BrokerUnreachable
from ..properties.client import Address, ClientProperties
from ..tls import make_tls_context

Dial: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Host and port -> an open stream.

Raises OSError, trio.BrokenResourceError or a ClassicError.  The caller sets the deadline.
"""


async def dialled(dial: Dial, broker: Address) -> trio.abc.Stream:
    """Return an open stream to a broker.

    Raises:
      BrokerUnreachable, AuthenticationFailed: no stream could be opened.
    """
    try:
        return await dial(broker.host, broker.port)
    except (OSError, UnicodeError, trio.BrokenResourceError) as error:
        raise BrokerUnreachable(f"{broker} cannot be reached: {_words(error)}.") from error


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def dial_of(properties: ClientProperties, lookups: NameLookups | None = None) -> Dial:
    """Return the Dial for a cluster.  Reads PEM files, so it blocks.

    Raises:
      BadProperties: a PEM file cannot be used.
    """
    plain = tcp_dial(lookups)
    return tls_dial(plain, make_tls_context(properties.tls)) if properties.tls else plain


def tcp_dial(lookups: NameLookups | None = None) -> Dial:
    """Return a Dial for PLAINTEXT listeners."""
    names = lookups or NameLookups()

    async def dial(host: str, port: int) -> trio.abc.Stream:
        return await names.dial(host, port)()

    return dial


def tls_dial(plain: Dial, context: ssl.SSLContext) -> Dial:
    """Return a Dial that speaks TLS on the streams of another Dial."""

    async def dial(host: str, port: int) -> trio.abc.Stream:
        stream = await plain(host, port)
        # Brokers close without TLS close_notify. That is safe, because frames carry their length.
        secured = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
        try:
            await secured.do_handshake()
        except trio.BrokenResourceError as error:
            await trio.aclose_forcefully(stream)
            raise _why(Address(host, port), error) from error
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    return dial


def _why(
    broker: Address, error: trio.BrokenResourceError
) -> AuthenticationFailed | BrokerUnreachable:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return AuthenticationFailed(
            f"{broker} has a certificate that is not trusted ({cause.verify_message}): check"
            " ssl.truststore.location and the names in the certificate."
        )
    if isinstance(cause, ssl.SSLError):
        return AuthenticationFailed(
            f"{broker} and this client agree on no TLS ({tls_reason(cause)}): check"
            " security.protocol, the port and ssl.keystore.location."
        )
    return BrokerUnreachable(f"{broker} closed the connection in the TLS handshake.")
